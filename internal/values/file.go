package values

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"addon-operator/internal/tree"
)

// File is the content of the values.yaml of a directory of modules or of a module. If the file does not exist, only
// Path is set.
type File struct {
	// Path is the path of the file, even if the file does not exist.
	Path string
	// Sections has the sections of the file, by key. Each section is a map. For a key without a value, it is empty.
	Sections Values
	// Flags has the values of the enabled flags in the file, by flag.
	Flags map[string]bool
	// Bad has the errors of keys that are neither a section nor a flag, by key. In the file of a directory, an error of
	// the key "global" affects all modules. Every other error affects only the module that has this section key or
	// flag. If no module has this key, the key may belong to the chart, because the values file of a module is also the
	// values file of its chart.
	Bad map[string]error
}

// ReadFile reads a values.yaml. A missing file is not an error, but a dangling symlink is.
func ReadFile(path string) (File, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return File{Path: path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return File{}, fmt.Errorf("cannot read values: %w", err)
	}
	if !info.Mode().IsRegular() {
		return File{}, fmt.Errorf("cannot read values: %s is not a regular file: replace or remove it", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return File{}, fmt.Errorf("cannot read values: %w", err)
	}
	return ParseFile(path, text)
}

// ParseFile parses the text of a values.yaml; path becomes the Path of the File and is named in errors. If the
// text has no document, for example only comments, or if its first document is null, ParseFile returns a File without
// values. Otherwise, the first document must be a map.
func ParseFile(path string, text []byte) (File, error) {
	decoded, line, err := decodeYAML(text)
	if err != nil {
		return File{}, at(path, line, err)
	}
	file := File{Path: path, Sections: Values{}, Flags: map[string]bool{}, Bad: map[string]error{}}
	if decoded == nil {
		return file, nil
	}
	document, isMap := decoded.(map[string]any)
	if !isMap {
		return File{}, at(path, 0, fmt.Errorf(`contains %s: it must be a map of sections, such as "global:" with its settings indented below it`, tree.Kind(decoded)))
	}
	for key, v := range document {
		if err := file.add(key, v); err != nil {
			file.Bad[key] = at(path, lineOf(text, key), fmt.Errorf("%q %w", key, err))
		}
	}
	return file, nil
}

// add adds one key of the file to the sections or flags. If v is a map, the key is the key of a section. Otherwise a
// key that ends in "Enabled" is a flag. Any other key must have no value, and is the key of an empty section.
func (f *File) add(key string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		f.Sections[key] = v
		return nil
	case nil:
		if !strings.HasSuffix(key, enabledSuffix) {
			f.Sections[key] = map[string]any{}
			return nil
		}
	case bool:
		if strings.HasSuffix(key, enabledSuffix) {
			f.Flags[key] = v
			return nil
		}
	case string:
		if value, err := strconv.ParseBool(strings.TrimSpace(v)); err == nil && strings.HasSuffix(key, enabledSuffix) {
			f.Flags[key] = value
			return nil
		}
	}
	if strings.HasSuffix(key, enabledSuffix) {
		return fmt.Errorf("is %s: write true or false", tree.Kind(v))
	}
	return fmt.Errorf("is %s: a section must be a map, settings indented under the key", tree.Kind(v))
}

// at returns err with the file and the line in front. Line 0 means that the line is unknown.
func at(path string, line int, err error) error {
	if line > 0 {
		return fmt.Errorf("%s:%d: %w", path, line, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}
