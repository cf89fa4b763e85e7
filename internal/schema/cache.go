package schema

import (
	"crypto/sha256"
	"path/filepath"
	"sync"
)

// A Cache loads schemas and keeps them until their files change. The zero value is ready to use. A
// Cache is safe for concurrent use.
type Cache struct {
	mu   sync.Mutex
	dirs map[string]cached // results by the path of the directory; guarded by mu
}

// cached is the result of [Parse], valid while the files have these checksums.
type cached struct {
	config, values [sha256.Size]byte
	set            *Set
	err            error
}

// Load returns the schemas in a directory openapi, which may not exist. Each call reads the files,
// but parses them only if they have changed. The error names the file and the position in the file.
func (c *Cache) Load(dir string) (*Set, error) {
	config, err := readFile(filepath.Join(dir, configFile))
	if err != nil {
		return nil, err
	}
	values, err := readFile(filepath.Join(dir, valuesFile))
	if err != nil {
		return nil, err
	}
	now := cached{config: sha256.Sum256(config.Text), values: sha256.Sum256(values.Text)}
	c.mu.Lock()
	defer c.mu.Unlock()
	held, found := c.dirs[dir]
	if found && held.config == now.config && held.values == now.values {
		return held.set, held.err
	}
	now.set, now.err = Parse(config, values)
	if c.dirs == nil {
		c.dirs = map[string]cached{}
	}
	c.dirs[dir] = now
	return now.set, now.err
}
