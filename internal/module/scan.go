package module

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"addon-operator/internal/values"
)

// valuesFile is the name of the values file of a module and of a directory of
// modules.
const valuesFile = "values.yaml"

// Set is the content of the directories of modules.
type Set struct {
	// Modules has all modules, including broken ones, sorted by order. Modules with the same order are sorted by name.
	// Their names are unique.
	Modules []Module
	// Static has the merged sections of the values files, by key. The global section is merged from the values files
	// of all directories of modules. The section of a module is merged from the values file of the directory that
	// contains the module, and from the values file of the module, which has precedence. Broken modules have no
	// section.
	Static values.Values
	// Files has the sections from which Static was merged, by key.
	Files map[string][]values.Part
	// Empty are the directories that contain no module, for example because they are not mounted. If such
	// a directory lacks a module that it had before, the module must not be treated as removed.
	Empty []string
	// ValuesFiles are the paths of the existing values files of the directories.
	ValuesFiles []string
	// Warnings describe skipped entries and ignored values, in one sentence each.
	Warnings []string
}

// Find returns the module with this name, broken or not.
func (s Set) Find(name string) (m Module, found bool) {
	i := slices.IndexFunc(s.Modules, func(m Module) bool { return m.Name == name })
	if i < 0 {
		return Module{}, false
	}
	return s.Modules[i], true
}

// LostValues returns the values files that an earlier scan found, but that are not in s, and whose directories are
// empty. The argument known has the values files of the earlier scan. A lost file may be on a volume that is not
// mounted.
func (s Set) LostValues(known []string) []string {
	return slices.DeleteFunc(slices.Clone(known), func(path string) bool {
		return slices.Contains(s.ValuesFiles, path) || !slices.Contains(s.Empty, filepath.Dir(path))
	})
}

// Scan reads the directories of modules. The document MODULES of flant/addon-operator describes their layout. Each
// directory in them, and each symlink to a directory, is a module, unless its name is lost+found or begins with a dot.
// If several modules have the same name, the first one is used. Modules without a number get the order unnumberedOrder.
//
// addons is the directory that [WriteAddonModules] writes; "" means that there is none. This directory is read last,
// and may be empty or missing.
//
// A problem of one module makes only that module broken. Scan returns an error only for problems that affect all
// modules: a directory that cannot be read, or an invalid values.yaml in it. If Scan returns an error, the Set is the
// zero value, and says nothing about the modules.
func Scan(dirs []string, addons string, unnumberedOrder int) (Set, error) {
	s := scan{unnumbered: unnumberedOrder, byName: map[string]string{}, own: map[string]values.File{}}
	var wrong []error
	for _, dir := range dirs {
		if err := s.readDir(dir, false); err != nil {
			wrong = append(wrong, err)
		}
	}
	if addons != "" {
		if err := s.readDir(addons, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
			wrong = append(wrong, err)
		}
	}
	if len(wrong) > 0 {
		return Set{}, errors.Join(wrong...)
	}
	s.mergeValues()
	slices.SortFunc(s.set.Modules, func(a, b Module) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), strings.Compare(a.Name, b.Name))
	})
	return s.set, nil
}

// Names returns the path of each module in the directories dirs, by name. The result empty has the directories without
// modules. Names does not read the files of modules, so broken modules are also in the result paths.
func Names(dirs []string) (paths map[string]string, empty []string, err error) {
	paths = map[string]string{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, nil, fmt.Errorf("modules directory cannot be read: %w: create it, or name another one", err)
		}
		holds := false
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			if info, err := os.Stat(path); isNoModule(entry.Name()) || err == nil && !info.IsDir() {
				continue
			}
			holds = true
			_, name := parseDirName(entry.Name(), 0)
			if _, taken := paths[name]; !taken {
				paths[name] = path
			}
		}
		if !holds {
			empty = append(empty, dir)
		}
	}
	return paths, empty, nil
}

// isNoModule reports whether an entry with this name in a directory of modules is certainly no module. The directory
// lost+found is at the root of each ext4 volume, even if no module has been copied to the volume.
func isNoModule(entry string) bool {
	return strings.HasPrefix(entry, ".") || entry == valuesFile || entry == "lost+found"
}

// scan is the state of Scan.
type scan struct {
	set        Set
	unnumbered int
	files      []values.File          // the values.yaml of each directory of modules, in the order of directories
	byName     map[string]string      // paths of modules by name
	own        map[string]values.File // the values.yaml of each module, by the path of the module
}

// readDir reads the modules and the values of one directory. It adds a directory without modules to set.Empty, unless
// addons is true.
func (s *scan) readDir(dir string, addons bool) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("modules directory %s: %w", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("modules directory cannot be read: %w: create it, or name another one", err)
	}
	file, err := values.ReadFile(filepath.Join(dir, valuesFile))
	if err != nil {
		return err
	}
	if bad := file.Bad[values.Global]; bad != nil {
		return bad
	}
	s.files = append(s.files, file)
	if file.Flags != nil {
		s.set.ValuesFiles = append(s.set.ValuesFiles, file.Path)
	}
	empty := !addons
	for _, entry := range entries {
		if isNoModule(entry.Name()) {
			continue
		}
		if s.readEntry(filepath.Join(dir, entry.Name()), addons) {
			empty = false
		}
	}
	if empty {
		s.set.Empty = append(s.set.Empty, dir)
	}
	return nil
}

// readEntry reads one entry of a directory of modules, and reports whether it is a module. An entry that cannot be
// read, such as a symlink to a directory that is not mounted, may be a module, so it becomes a broken module. For a
// module made from an addon, Path is the directory of its version, not the link. So the files of the module do not
// change when the addon is upgraded.
func (s *scan) readEntry(path string, addons bool) bool {
	m := Module{FromAddon: addons}
	m.Order, m.Name = parseDirName(filepath.Base(path), s.unnumbered)
	if version, err := os.Readlink(path); addons && err == nil {
		path = filepath.Join(filepath.Dir(path), version)
	}
	m.Path = path
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		s.warn("%s is not a directory: no module", path)
		return false
	}
	if first, taken := s.byName[m.Name]; taken {
		s.warn("%s is ignored: module %q is already at %s; rename or remove one of them", path, m.Name, first)
		return true
	}
	s.byName[m.Name] = path
	if err != nil {
		s.warn("%s cannot be read: mount its target, or remove it", path)
	}
	file, warnings := m.load()
	s.own[path] = file
	s.set.Warnings = append(s.set.Warnings, warnings...)
	s.set.Modules = append(s.set.Modules, m)
	return true
}

func (s *scan) warn(format string, args ...any) {
	s.set.Warnings = append(s.set.Warnings, fmt.Sprintf(format, args...))
}

// mergeValues sets the Flags of all modules, marks modules with errors in values files as broken, and merges the
// sections of the values files.
func (s *scan) mergeValues() {
	s.set.Static, s.set.Files = values.Values{}, map[string][]values.Part{}
	s.markBroken()
	for _, file := range s.files {
		s.set.Static = values.Merge(s.set.Static, section(file, values.Global))
		s.notePart(file, values.Global)
	}
	for i := range s.set.Modules {
		m := &s.set.Modules[i]
		if m.Key == "" {
			continue
		}
		flag := values.Flag(m.Key)
		var beside values.Values
		for _, file := range s.files {
			if enabled, found := file.Flags[flag]; found {
				m.Flags = append(m.Flags, Decision{Enabled: enabled, Source: SourceModulesFile, By: file.Path})
			}
			if filepath.Dir(file.Path) == filepath.Dir(m.Path) {
				beside = section(file, m.Key)
				s.notePart(file, m.Key)
			}
		}
		own := s.own[m.Path]
		if enabled, found := own.Flags[flag]; found {
			found := Decision{Enabled: enabled, Source: SourceModuleFile, By: own.Path}
			if m.Addon != nil {
				found.Source, found.By = SourceAddon, m.Addon.String()
			}
			m.Flags = append(m.Flags, found)
		}
		if m.Broken == nil {
			maps.Copy(s.set.Static, values.Merge(beside, section(own, m.Key)))
			s.notePart(own, m.Key)
		}
	}
}

// notePart adds the section of file with this key to s.set.Files, if file has one.
func (s *scan) notePart(file values.File, key string) {
	if part, found := file.Sections[key]; found {
		s.set.Files[key] = append(s.set.Files[key], values.Part{Path: file.Path, Section: part})
	}
}

// markBroken marks the modules with errors in the values file of a directory as broken. An error in an enabled flag
// marks the module even if the module is in another directory. An error in a section marks the module only if it is in
// the same directory as the values file. Errors that belong to no module become warnings.
func (s *scan) markBroken() {
	byKey := map[string]*Module{}
	for i := range s.set.Modules {
		if m := &s.set.Modules[i]; m.Key != "" {
			byKey[m.Key] = m
			byKey[values.Flag(m.Key)] = m
		}
	}
	for _, file := range s.files {
		for _, key := range slices.Sorted(maps.Keys(file.Bad)) {
			m, known := byKey[key]
			if !known || key == m.Key && filepath.Dir(m.Path) != filepath.Dir(file.Path) {
				s.warn("%v; it belongs to no module here", file.Bad[key])
				continue
			}
			m.Broken = errors.Join(m.Broken, file.Bad[key])
		}
	}
}

// section returns values that contain only one section of a values file: the section with the given key. It returns
// nil if the file does not have this section.
func section(file values.File, key string) values.Values {
	if under, ok := file.Sections[key]; ok {
		return values.Values{key: under}
	}
	return nil
}
