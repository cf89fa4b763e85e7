package author

import (
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"sigs.k8s.io/yaml"

	"addon-operator/internal/catalog"
)

// An indexEntry is one version of an addon in index.yaml.
type indexEntry struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Version     string `json:"version"`
}

// WriteIndex writes an index.yaml with all addons of the repository into dir, and returns the number of its entries.
// If an addon is invalid, WriteIndex writes nothing and returns an error.
func (r *Repository) WriteIndex(dir string) (entries int, err error) {
	if err := r.valid(); err != nil {
		return 0, err
	}
	index := struct {
		APIVersion string                  `json:"apiVersion"`
		Entries    map[string][]indexEntry `json:"entries"`
	}{"v1", map[string][]indexEntry{}}
	for _, a := range r.addons {
		about := &a.loaded.Addon
		entry := indexEntry{about.Name, about.Description, catalog.NormalizeVersion(about.Version)}
		same := func(other indexEntry) bool { return other.Version == entry.Version }
		if !slices.ContainsFunc(index.Entries[about.Name], same) { // a directory and its archive share one entry
			index.Entries[about.Name] = append(index.Entries[about.Name], entry)
			entries++
		}
	}
	for _, versions := range index.Entries {
		slices.SortFunc(versions, newestFirst)
	}
	text, err := yaml.Marshal(index)
	if err != nil {
		return 0, err
	}
	if err := checkIndex(text); err != nil {
		return 0, err
	}
	return entries, write(dir, indexFile, text)
}

// checkIndex returns an error if the operator would reject the index or one of its entries.
func checkIndex(text []byte) error {
	entries, err := catalog.ParseIndex(text)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Err != nil {
			return fmt.Errorf("addon %s %s: %w", entry.Name, entry.Version, entry.Err)
		}
	}
	return nil
}

func newestFirst(a, b indexEntry) int {
	left, errLeft := semver.NewVersion(a.Version)
	right, errRight := semver.NewVersion(b.Version)
	if errLeft != nil || errRight != nil {
		return strings.Compare(b.Version, a.Version)
	}
	return right.Compare(left)
}
