package hook_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"addon-operator/internal/hook"
	"addon-operator/sdk/shell"
)

const frameworkHook = `
source /shell_lib.sh
__config__() { echo '{"configVersion":"v1","onStartup":1}'; }
__on_startup() { values::set some.from "$BINDING_CONTEXT_CURRENT_BINDING"; }
hook::run "$@"
`

func TestHooksSourceTheFrameworkWhereNoneIsInstalled(t *testing.T) {
	t.Parallel()
	for name, temp := range map[string]string{
		"plain": "", "a name that shells expand": filepath.Join(t.TempDir(), "$HOME `x` \"y\" \\z"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, hook.Options{Framework: shell.Framework, TempDir: temp})
			run := scriptRun(t, frameworkHook)
			config, err := r.Config(t.Context(), run.File)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := config.Order(hook.OnStartup); !ok {
				t.Errorf("the config is %+v", config)
			}
			result, err := r.Run(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"op":"add","path":"/some/from","value":"onStartup"}` + "\n"; string(result.ValuesPatch) != want {
				t.Errorf("the patch is %q, want %q", result.ValuesPatch, want)
			}
		})
	}
}

func TestFrameworkThatVanishesIsMadeAgain(t *testing.T) {
	t.Parallel()
	temp := filepath.Join(t.TempDir(), "hooks")
	r := newRunner(t, hook.Options{Framework: shell.Framework, TempDir: temp})
	if err := os.RemoveAll(temp); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), scriptRun(t, frameworkHook)); err != nil {
		t.Error(err)
	}
}

// slowFiles opens its files slowly, so that another run starts while the files are copied.
type slowFiles struct{ fs.FS }

func (f slowFiles) Open(name string) (fs.File, error) {
	time.Sleep(20 * time.Millisecond)
	return f.FS.Open(name)
}

func TestConcurrentRunsAfterTheFrameworkVanishedSeeAllOfItsFiles(t *testing.T) {
	t.Parallel()
	temp := filepath.Join(t.TempDir(), "hooks")
	r := newRunner(t, hook.Options{Framework: slowFiles{shell.Framework}, TempDir: temp})
	if err := os.RemoveAll(temp); err != nil {
		t.Fatal(err)
	}
	var runs errgroup.Group
	for range 8 {
		run := scriptRun(t, frameworkHook)
		runs.Go(func() error {
			_, err := r.Run(t.Context(), run)
			return err
		})
	}
	if err := runs.Wait(); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "shell-copy-*")); err != nil || len(left) > 0 {
		t.Errorf("unused copies: %q, %v", left, err)
	}
}

func TestUsersOwnBashEnvIsReadAsWell(t *testing.T) {
	t.Parallel()
	own := filepath.Join(t.TempDir(), "own.sh")
	if err := os.WriteFile(own, []byte("own=yes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, options := range []hook.Options{{Framework: shell.Framework}, {}} {
		options.Env = append(os.Environ(), "BASH_ENV="+own)
		r := newRunner(t, options)
		if _, err := r.Run(t.Context(), scriptRun(t, "[[ $own == yes ]]")); err != nil {
			t.Error(err)
		}
	}
}
