package story

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/disk"
)

// patience is the maximum time for which a command of a story waits for the expected result. Only the command "gone"
// waits longer, if it waits for a namespace. patience is long, because stories also run on machines with one slow CPU.
const patience = 3 * time.Minute

// glance is the pause of [wait] between two calls of its function, and the pause of keep-on between two requests.
const glance = 20 * time.Millisecond

// library is a file of shell functions, which record the runs of hooks. The hooks of stories load it.
//
//go:embed library.sh
var library []byte

// An environment has the files, the cluster and the processes of one story.
type environment struct {
	t          *testing.T
	dir        string
	program    string
	namespace  string
	kubeconfig string
	own        *ownCluster // nil if the story uses the shared cluster

	config  *rest.Config
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper

	operator *operator
	starts   int

	reader *reader // nil before the story shows the first screen

	proxy   *faultyServer // nil before the story starts the proxy
	disk    *disk.Disk    // file system with the store; nil if the store is in dir
	filling func() error  // frees the disk; nil if the disk is not full

	repositories *repositoryServer // nil before the story serves any repositories
	certificates string            // file with a certificate that the operator trusts; if empty, the operator trusts the certificates of the system
}

// Run runs the scripts in dir in parallel. A script with a file named own-cluster has its own
// control plane.
func Run(t *testing.T, dir string) {
	t.Helper()
	program, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no stories in %s (%v)", dir, err)
	}
	shared := cluster.Start(t)
	shared.AwaitGarbageCollector(t, shared.Namespace(t)) // hooks delete objects and wait for the collector
	for _, script := range scripts {
		// RunT is called separately for each script, so that each script has its own t. The name of the script's
		// namespace is derived from t.
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			t.Parallel()
			testscript.RunT(inline{t}, testscript.Params{
				Files: []string{script},
				Cmds:  commands(),
				Setup: func(env *testscript.Env) error { return setup(t, env, shared, program) },
			})
		})
	}
}

// inline implements testscript.T. It runs one script within the current test, not in a subtest.
type inline struct{ *testing.T }

// Run calls fn without starting a subtest.
func (t inline) Run(_ string, fn func(testscript.T)) { fn(t) }

// Parallel does nothing, because the current test is already parallel.
func (t inline) Parallel() {}

// Verbose reports whether the output of successful scripts must be shown.
func (t inline) Verbose() bool { return testing.Verbose() }

func setup(t *testing.T, env *testscript.Env, c *cluster.Cluster, program string) error {
	t.Helper()
	w := &environment{t: t, dir: env.WorkDir, program: program}
	if _, err := os.Stat(w.path("own-cluster")); err == nil {
		w.own = &ownCluster{t: t, dir: t.TempDir()}
		c = w.own.start()
	}
	w.namespace, w.kubeconfig = c.Namespace(t), c.Kubeconfig()
	if err := w.connect(c.Config()); err != nil {
		return err
	}
	if err := w.lay(); err != nil {
		return err
	}
	env.Values[environmentKey{}] = w
	env.Vars = append(env.Vars, "NAMESPACE="+w.namespace, "KUBECONFIG="+w.kubeconfig, "LIBRARY="+w.path("library.sh"), "RUNS="+w.path("runs"),
		"OPERATOR="+program, "DEBUG_UNIX_SOCKET="+w.path("socket"))
	env.Defer(func() {
		if w.operator != nil {
			_ = w.operator.end(os.Kill) // the story has not stopped the operator; the error does not matter
		}
		if t.Failed() {
			t.Logf("operator:\n%s", w.log())
		}
	})
	return nil
}

func (w *environment) connect(config *rest.Config) (err error) {
	w.config = config
	if w.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if w.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	w.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))
	return nil
}

// lay creates the directories of the operator, and writes library.sh for the hooks. It also makes each file with a #!
// line executable, because a txtar archive stores no file modes.
func (w *environment) lay() error {
	for _, dir := range []string{"modules", "global-hooks", "runs", "tmp"} {
		if err := os.MkdirAll(w.path(dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(w.path("library.sh"), library, 0o600); err != nil {
		return err
	}
	return filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(text, []byte("#!")) {
			return err
		}
		return os.Chmod(path, 0o755)
	})
}

func (w *environment) path(name string) string { return filepath.Join(w.dir, name) }

type environmentKey struct{}

// environmentOf returns the environment of the story that ts runs.
func environmentOf(ts *testscript.TestScript) *environment {
	w, ok := ts.Value(environmentKey{}).(*environment)
	if !ok {
		ts.Fatalf("the script has no environment: it was not started by Run")
	}
	return w
}

// A command implements one command of stories. If it returns an error, the story fails.
type command func(w *environment, ts *testscript.TestScript, args []string) error

// commands returns the commands that stories can use in addition to those of package testscript.
func commands() map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]command{}
	maps.Copy(all, operatorCommands)
	maps.Copy(all, runCommands)
	maps.Copy(all, apartCommands)
	maps.Copy(all, objectCommands)
	maps.Copy(all, releaseCommands)
	maps.Copy(all, existingCommands)
	maps.Copy(all, clusterCommands)
	maps.Copy(all, reviewCommands)
	maps.Copy(all, pageCommands)
	maps.Copy(all, repositoryCommands)
	maps.Copy(all, sourceCommands)
	maps.Copy(all, readerCommands)
	maps.Copy(all, faultCommands)
	maps.Copy(all, alertCommands)
	out := map[string]func(*testscript.TestScript, bool, []string){}
	for name, run := range all {
		out[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg {
				ts.Fatalf("%s cannot be negated with !", name)
			}
			if err := run(environmentOf(ts), ts, args); err != nil {
				ts.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
			}
		}
	}
	return out
}

// wait calls the given function repeatedly until the function returns nil or a [final] error, but for at most the
// duration of the constant patience. wait returns the last error of the function.
func wait(look func() error) error { return waitAtMost(patience, look) }

// waitAtMost does the same as wait, but with the given limit instead of patience.
func waitAtMost(limit time.Duration, look func() error) error {
	for began := time.Now(); ; time.Sleep(glance) {
		err := look()
		if last := (final{}); errors.As(err, &last) {
			return last.error
		}
		if err == nil || time.Since(began) > limit {
			return err
		}
	}
}

// A final error makes [wait] return at once.
type final struct{ error }

// finally returns err as a final error, or nil if err is nil.
func finally(err error) error {
	if err == nil {
		return nil
	}
	return final{err}
}

// say prints text on the script's standard output.
func say(ts *testscript.TestScript, text string) { _, _ = io.WriteString(ts.Stdout(), text) } // never fails, because the output is kept in memory

// usage returns the error of a command that has wrong arguments. form shows the right arguments.
func usage(form string) error { return fmt.Errorf("usage: %s", form) }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
