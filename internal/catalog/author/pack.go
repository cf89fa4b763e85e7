package author

import (
	"fmt"

	"addon-operator/internal/catalog"
)

// Package packs each addon that is a directory into an archive. It writes the archives into the given directory, and
// returns their file names. If an addon is invalid, or no addon is a directory, Package writes nothing and returns an
// error.
func (r *Repository) Package(to string) (names []string, err error) {
	if err := r.valid(); err != nil {
		return nil, err
	}
	for _, a := range r.addons {
		if a.packed {
			continue
		}
		archive, err := catalog.Pack(a.fsys)
		if err != nil {
			return names, fmt.Errorf("pack addon %s: %w", a.path, err)
		}
		name := a.address() + archiveType
		if err := write(to, name, archive); err != nil {
			return names, err
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has archives only; there is no directory to pack", r.dir)
	}
	return names, nil
}
