package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is one hook on disk.
type File struct {
	Scope Scope `json:"scope"`
	// Name is the path of the file relative to the directory of the module or of the global hooks, such as
	// hooks/sub/x.sh. It is unique among the hooks of a module, and among the global hooks.
	Name string `json:"name"`
	// Path is the absolute path of the file. Scripts find it in $0, Python scripts in sys.argv[0].
	Path string `json:"path"`
	// Interpreter is the path of python3 in the module's virtual environment hooks/venv. It is set only if that
	// python3 exists and the hook is a *.py file. Otherwise Interpreter is "", and the file itself is executed.
	Interpreter string `json:"interpreter,omitempty"`
}

// Skipped is a file or directory that [Find] has found in a directory of hooks, but that is not a hook.
type Skipped struct {
	Path   string
	Reason string
	// MissingBit means that the file is probably a hook whose execute bit is missing: it has a #! line, or is a binary.
	// A file that hooks only load as a library usually has neither a #! line nor the execute bit.
	MissingBit bool
}

// Find lists hooks, sorted by path. If scope is Module, dir is the directory of a module, and the hooks are in and
// below dir/hooks, which does not have to exist. If scope is Global, the hooks are in and below dir/hooks, or dir
// itself if dir/hooks is not a directory; dir must exist.
//
// A hook is a regular file with an execute bit, or a link to such a file. Find ignores files and directories whose
// names begin with a dot, and files with the extensions .yaml, .json, .md and .txt. It returns as skipped: files
// without an execute bit, files that are not regular or cannot be read, links to directories, directories called lib
// or tests, and a module's virtual environment.
func Find(scope Scope, dir string) ([]File, []Skipped, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("find hooks: %w", err)
	}
	s := search{scope: scope, base: dir, root: filepath.Join(dir, "hooks")}
	info, err := os.Stat(s.root)
	switch {
	case err == nil && info.IsDir():
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("find hooks: %w", err)
	case scope == Global:
		s.base, s.root = dir, dir
	case err == nil:
		return nil, []Skipped{{Path: s.root, Reason: "is not a directory"}}, nil
	default:
		return nil, nil, nil
	}
	if scope == Module {
		s.findPython()
	}
	if err := s.directory(s.root); err != nil {
		return nil, nil, fmt.Errorf("find hooks: %w", err)
	}
	slices.SortFunc(s.files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(s.skipped, func(a, b Skipped) int { return strings.Compare(a.Path, b.Path) })
	return s.files, s.skipped, nil
}

// search is the state of one call of [Find]. It searches in and below root. Names of hooks are relative to base.
type search struct {
	scope      Scope
	base, root string
	python     string
	files      []File
	skipped    []Skipped
}

func (s *search) findPython() {
	python := filepath.Join(s.root, "venv", "bin", "python3")
	if info, err := os.Stat(python); err == nil && executable(info) {
		s.python = python
	}
}

func (s *search) directory(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), "."):
		case entry.IsDir():
			if reason := s.library(entry.Name()); reason != "" {
				s.skip(path, reason)
				continue
			}
			if err := s.directory(path); err != nil {
				return err
			}
		case slices.Contains([]string{".yaml", ".json", ".md", ".txt"}, filepath.Ext(entry.Name())):
		default:
			s.file(path)
		}
	}
	return nil
}

// library returns the reason why a directory with this name is not searched for hooks. If it must be searched, library
// returns "".
func (s *search) library(name string) string {
	switch {
	case name == "lib", name == "tests":
		return "a directory named " + name + " contains no hooks"
	case name == "venv" && s.scope == Module:
		return "the virtual environment of python hooks contains no hooks"
	default:
		return ""
	}
}

func (s *search) file(path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		s.skip(path, "cannot be read: "+err.Error())
	case info.IsDir():
		s.skip(path, "links to directories are not followed")
	case !info.Mode().IsRegular():
		s.skip(path, "is not a regular file")
	case !executable(info):
		s.skipped = append(s.skipped, Skipped{
			Path: path, Reason: "is not executable; chmod +x if it is a hook", MissingBit: runnable(path),
		})
	default:
		file := File{Scope: s.scope, Name: strings.TrimPrefix(path, s.base+string(filepath.Separator)), Path: path}
		if filepath.Ext(path) == ".py" {
			file.Interpreter = s.python
		}
		s.files = append(s.files, file)
	}
}

func (s *search) skip(path, reason string) {
	s.skipped = append(s.skipped, Skipped{Path: path, Reason: reason})
}

// runnable reports whether the file at path begins with #! or is an ELF binary.
func runnable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() // the error does not matter, because the file was only read
	start := make([]byte, 4)
	n, err := io.ReadFull(f, start)
	if err != nil && n < 2 {
		return false
	}
	return bytes.HasPrefix(start, []byte("#!")) || bytes.Equal(start, []byte("\x7fELF"))
}

func executable(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
