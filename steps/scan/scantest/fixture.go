// Package scantest creates directories of modules for tests.
package scantest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/steps/scan"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

// Options returns the options for an empty store in memory and two directories. The directory mounted is the
// directory of modules, which contains the module "web". The directory unmounted is empty, and the options do not use
// it. The parent of both directories is the directory of global hooks.
func Options(t testing.TB) (o scan.Options, mounted, unmounted string) {
	t.Helper()
	root := t.TempDir()
	mounted, unmounted = filepath.Join(root, "a"), filepath.Join(root, "b")
	for _, dir := range []string{filepath.Join(mounted, "010-web"), unmounted} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return scan.Options{
		DB: storetest.Memory(t), Log: zerolog.Nop(), ModulesDirs: []string{mounted}, GlobalHooksDir: root, UnnumberedOrder: 1,
	}, mounted, unmounted
}

// New returns a state that has not scanned its directories yet. The directory mounted contains the module "web".
func New(t testing.TB) (state *scan.State, mounted string) {
	t.Helper()
	o, mounted, _ := Options(t)
	return scan.New(o, nil), mounted
}

// Scan scans the directories of state. After an error, the test fails.
func Scan(t testing.TB, state *scan.State) {
	t.Helper()
	if _, err := state.Scan(); err != nil {
		t.Fatal(err)
	}
}

// Update calls the function do in one transaction of the store. After an error, the test fails.
func Update(t testing.TB, db *store.DB, do func(*store.Tx) error) {
	t.Helper()
	if err := db.Update(do); err != nil {
		t.Fatal(err)
	}
}

// Write writes a file below dir, and returns its path. It creates missing directories. It prevents forks while the file
// is open for writing: a forked process would also have the file open for writing, and the kernel does not execute such
// a file.
func Write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // all users may read files of modules
		t.Fatal(err)
	}
	return path
}

// Program writes a file that can be executed, and returns its path.
func Program(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := Write(t, dir, name, text)
	if err := os.Chmod(path, 0o755); err != nil { //nolint:gosec // hooks are executed
		t.Fatal(err)
	}
	return path
}

// Config returns the content of a ConfigMap. The elements of data are keys, each followed by its text.
func Config(t testing.TB, data ...string) values.Config {
	t.Helper()
	m := map[string]string{}
	for i := 0; i < len(data); i += 2 {
		m[data[i]] = data[i+1]
	}
	c, err := values.ParseConfig(m)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Runner returns a runner that runs hooks as processes.
func Runner(t testing.TB) *hook.Runner {
	t.Helper()
	return newRunner(t, hook.Options{})
}

// ImpatientRunner returns a runner whose runs with --config reach their timeout almost at once. It is for hooks that
// never end by themselves.
func ImpatientRunner(t testing.TB) *hook.Runner {
	t.Helper()
	return newRunner(t, hook.Options{ConfigTimeout: 100 * time.Millisecond})
}

func newRunner(t testing.TB, o hook.Options) *hook.Runner {
	t.Helper()
	o.TempDir = t.TempDir()
	runner, err := hook.NewRunner(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runner.Close)
	return runner
}
