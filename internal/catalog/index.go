package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"addon-operator/internal/tree"
)

// Limits of an index file.
const (
	// MaxIndexSize is the maximum size of an index in bytes. Parsing an index needs up to 70 times as much memory.
	MaxIndexSize = 1 << 20
	// MaxIndexEntries is the maximum number of entries in an index. It limits the size of an addons configuration,
	// because its status lists every addon.
	MaxIndexEntries = 5000
)

// maxNameLength is the maximum length of an addon's name in bytes. The name becomes a part of a file name, whose
// length is limited.
const maxNameLength = 200

// An Entry is one version of an addon in an index.
type Entry struct {
	// Name is the key of the addon in the index. Version is the version as written in the index. The address of the
	// addon is made from Name and Version. If Err is set, Name and Version can be cut off, and Version can be empty.
	Name, Version string
	// Err says why the entry is invalid; nil if it is valid. The addon of an invalid entry must not be fetched.
	Err error
}

// ParseIndex returns the entries of an index, sorted by name. Versions of one name keep the order of the index.
// ParseIndex returns an error only if the text is not an index or exceeds a limit. If one entry is invalid,
// [Entry.Err] of this entry says why.
func ParseIndex(text []byte) ([]Entry, error) {
	if len(text) > MaxIndexSize {
		return nil, fmt.Errorf("index has %d bytes, more than the limit of %d", len(text), MaxIndexSize)
	}
	if bytes.HasPrefix(bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff"))), []byte("<")) {
		return nil, errors.New("index is an HTML or XML page, not YAML; check the address")
	}
	document, err := parseYAML(text)
	if err != nil {
		return nil, fmt.Errorf("index is not valid YAML: %w", err)
	}
	if document == nil {
		return nil, nil
	}
	index, isMap := document.(map[string]any)
	if !isMap {
		return nil, fmt.Errorf(`index must be a map with the key "entries" (got %s)`, tree.Kind(document))
	}
	addons := field(index, "entries")
	if addons == nil {
		return nil, nil
	}
	byName, isMap := addons.(map[string]any)
	if !isMap {
		return nil, fmt.Errorf("entries of the index must be a map of addon names to lists of versions (got %s)", tree.Kind(addons))
	}
	return indexEntries(byName)
}

func indexEntries(byName map[string]any) ([]Entry, error) {
	var entries []Entry
	for name, versions := range byName {
		list, isList := versions.([]any)
		if !isList && versions != nil {
			entries = append(entries, Entry{Name: tree.Excerpt(name), Err: fmt.Errorf("the index must have a list of versions for the addon (got %s)", tree.Kind(versions))})
			continue
		}
		for _, version := range list {
			entries = append(entries, indexEntry(name, version))
		}
		if len(entries) > MaxIndexEntries {
			return nil, fmt.Errorf("index has more than the limit of %d entries; split it into several files", MaxIndexEntries)
		}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

func indexEntry(name string, of any) Entry {
	entry := Entry{Name: name}
	if err := CheckName(name); err != nil {
		entry.Name, entry.Err = tree.Excerpt(name), err
	}
	fields, isMap := of.(map[string]any)
	if !isMap {
		entry.Err = errors.Join(entry.Err, fmt.Errorf(`a version of the addon in the index must be a map with the key "version" (got %s)`, tree.Kind(of)))
		return entry
	}
	value := field(fields, "version")
	version, isText := scalarText(value)
	if !isText {
		entry.Err = errors.Join(entry.Err, fmt.Errorf("version of the addon in the index must be a string (got %s)", tree.Kind(value)))
		return entry
	}
	entry.Version = tree.Excerpt(version)
	if _, err := parseVersion(version); err != nil {
		entry.Err = errors.Join(entry.Err, fmt.Errorf("version of the addon in the index: %w", err))
		return entry
	}
	entry.Version = version
	return entry
}

// CheckName returns an error if name cannot be the name of an addon: it is empty or too long, it contains control
// characters, or a path made from it could lead out of the directory of the index.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("addon name is empty")
	case len(name) > maxNameLength:
		return fmt.Errorf("addon name has %d bytes, more than the limit of %d", len(name), maxNameLength)
	case strings.HasPrefix(name, "."), strings.ContainsAny(name, `/\`), strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("addon name %q must not begin with a dot or contain slashes, backslashes or control characters", tree.Excerpt(name))
	default:
		return nil
	}
}
