package schema

import (
	"crypto/sha256"
	"path/filepath"
	"sync"
)

// A Cache loads schemas and keeps them for as long as their files say the same.
// The zero value is ready. It can be used by several goroutines at once.
type Cache struct {
	mu   sync.Mutex
	dirs map[string]cached // by directory; guarded by mu
}

// cached is what files with these checksums came to.
type cached struct {
	config, values [sha256.Size]byte
	set            *Set
	err            error
}

// Load returns the schemas in a directory openapi, which need not exist. Its files
// are read each time, and parsed only where they are not what they were. The error
// says in which file and where in it something is wrong.
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
