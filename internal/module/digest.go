package module

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// part is a file or directory that belongs to the code of a module, or to a directory of global hooks.
type part struct {
	name string
	// If executables is true, only executable files belong to the code, because hooks write other files into their
	// directories. In this case, symlinks to directories are not followed.
	executables bool
}

// moduleParts are the files and directories from which the digest of a module is computed.
var moduleParts = []part{
	{name: addonFile},
	{name: chartFile},
	{name: "charts"},
	{name: enabledFile},
	{name: hooksDir, executables: true},
	{name: "openapi"},
	{name: templatesDir},
	{name: "values.schema.json"},
	{name: valuesFile},
}

// maxDepth limits the nesting of directories. In practice only a cycle of symlinks exceeds this limit.
const maxDepth = 64

// Digests computes digests of code. It caches the checksums of files, so that only changed files are read again. The
// zero value is ready to use. It is safe for concurrent use.
type Digests struct {
	mu    sync.Mutex
	roots map[string]map[string]seen // the keys are the argument key of digestAs, and the path of the file
}

// seen is the cached checksum of a file, valid while the file has this stamp.
type seen struct {
	stamp stamp
	sum   [sha256.Size]byte
}

// stamp is the metadata of a file. It changes if the content of the file changes.
type stamp struct {
	inode        uint64
	size         int64
	mtime, ctime syscall.Timespec
}

// Module returns the digest of a module's code: the executables under hooks, the enabled script, values, schemas, chart
// and addon. The digest does not depend on the path or the order of the module.
func (d *Digests) Module(m Module) (string, error) {
	return d.digest(m.Path, moduleParts)
}

// CRDs returns the digest of the files in the module's directory crds. If the module has no such directory, it
// returns "".
func (d *Digests) CRDs(m Module) (string, error) {
	if m.CRDs == "" {
		return "", nil
	}
	return d.digest(m.CRDs, []part{{name: "."}})
}

// GlobalHooks returns the digest of a directory of global hooks: the executables and the schemas. If dir has a
// sub-directory named hooks, only that sub-directory is searched for executables.
func (d *Digests) GlobalHooks(dir string) (string, error) {
	return d.digest(dir, []part{hooksIn(dir), {name: "openapi"}})
}

// Hooks returns the digest of the hooks in dir, without other code. The hooks are the executables in the sub-directory
// of dir that is named hooks, or in dir itself if there is no such sub-directory.
func (d *Digests) Hooks(dir string) (string, error) {
	return d.digestAs("hooks of "+dir, dir, []part{hooksIn(dir)})
}

// ChartFiles returns the digest of the files of modules that their charts can read, such as dashboards beside the
// templates. These are all [Files] of each module that has a chart, except files in hidden directories and in the
// directory of hooks, because hooks write files there. If there is no Chart.yaml, ChartFiles also leaves out OtherDirs.
// It ignores modules made from addons. A file or a directory that cannot be read is not an error, because it is
// possible that no chart reads it.
func ChartFiles(modules []Module) string {
	all := sha256.New()
	for _, m := range modules {
		if m.Chart == NoChart || m.FromAddon {
			continue
		}
		_, _ = fmt.Fprintf(all, "%q\n", m.Name) // a write to a hash returns no error
		omit := func(dir string) bool {
			name := path.Base(dir)
			return dir == hooksDir || strings.HasPrefix(name, ".") || m.Chart == TemplatesOnly && slices.Contains(OtherDirs, name)
		}
		for f, err := range Files(m.Path, omit) {
			var sum [sha256.Size]byte
			if err == nil {
				sum, err = checksum(filepath.Join(m.Path, f.Name))
			}
			_, _ = fmt.Fprintf(all, "%q %t %x\n", f.Name, err == nil, sum)
		}
	}
	return hex.EncodeToString(all.Sum(nil))
}

// hooksIn returns the part of dir that contains hooks.
func hooksIn(dir string) part {
	if info, err := os.Stat(filepath.Join(dir, hooksDir)); err != nil || !info.IsDir() {
		return part{name: ".", executables: true}
	}
	return part{name: hooksDir, executables: true}
}

// digest returns the digest of the parts below root. Parts that do not exist are ignored.
func (d *Digests) digest(root string, parts []part) (string, error) {
	return d.digestAs(root, root, parts)
}

// digestAs is like digest, but caches the checksums of files under key instead of root.
func (d *Digests) digestAs(key, root string, parts []part) (string, error) {
	if _, err := os.Stat(root); err != nil {
		return "", fmt.Errorf("cannot tell whether code changed: %w", err)
	}
	d.mu.Lock()
	before := d.roots[key]
	d.mu.Unlock()

	pass := reading{before: before, now: map[string]seen{}, digest: sha256.New()}
	for _, p := range parts {
		if err := pass.visit(filepath.Join(root, p.name), p.name, p.executables, 0); err != nil {
			return "", fmt.Errorf("cannot tell whether code changed: %w", err)
		}
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.roots == nil {
		d.roots = map[string]map[string]seen{}
	}
	d.roots[key] = pass.now
	return hex.EncodeToString(pass.digest.Sum(nil)), nil
}

// reading is the state of one computation of a digest. It has the cached checksums of the previous computation, and
// those of this one.
type reading struct {
	before, now map[string]seen
	digest      hash.Hash
}

// visit adds the file at path, or all files below the directory at path. The argument name is the path
// relative to the root; the digest includes this name. Dangling symlinks, and files that vanish during the visit, are
// ignored.
func (r *reading) visit(path, name string, executables bool, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s is nested too deeply: remove the symlink that points to a directory above itself", path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().IsRegular() && (!executables || info.Mode().Perm()&0o111 != 0):
		return r.file(path, name, info)
	case !info.IsDir():
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		under := filepath.Join(path, entry.Name())
		if executables && isSkipped(under, entry) {
			continue
		}
		if err := r.visit(under, name+"/"+entry.Name(), executables, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// isSkipped reports whether an entry of a directory of hooks is skipped because it is a hidden directory, a symlink
// to a directory, or a dangling symlink.
func isSkipped(path string, entry fs.DirEntry) bool {
	if entry.Type()&fs.ModeSymlink != 0 {
		info, err := os.Stat(path)
		return err != nil || info.IsDir()
	}
	return entry.IsDir() && strings.HasPrefix(entry.Name(), ".")
}

// file adds one file to the digest.
func (r *reading) file(path, name string, info fs.FileInfo) error {
	is, known := stampOf(info)
	held, found := r.before[path]
	if !known || !found || held.stamp != is {
		sum, err := checksum(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		held = seen{stamp: is, sum: sum}
		// The checksum is not cached if the file was written while it was read.
		after, err := os.Stat(path)
		if err != nil {
			known = false
		} else if stamp, _ := stampOf(after); stamp != is {
			known = false
		}
	}
	if known {
		r.now[path] = held
	}
	_, err := fmt.Fprintf(r.digest, "%q %t %x\n", name, info.Mode().Perm()&0o111 != 0, held.sum)
	return err
}

// stampOf returns the stamp of a file, and whether the platform provides one.
func stampOf(info fs.FileInfo) (stamp, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}, false
	}
	return stamp{inode: stat.Ino, size: stat.Size, mtime: stat.Mtim, ctime: stat.Ctim}, true
}

// checksum returns the checksum of a file.
func checksum(path string) (sum [sha256.Size]byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer file.Close() // an error of Close does not matter, because the file was only read
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return sum, fmt.Errorf("reading %s: %w", path, err)
	}
	h.Sum(sum[:0])
	return sum, nil
}
