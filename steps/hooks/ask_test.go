package hooks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
)

// counting returns a hook that adds a line to a file in each run with --config. The argument asked is the path of the
// file.
func counting(asked string) string {
	return "#!/bin/sh\necho >>" + asked + "\necho '{\"configVersion\": \"v1\", \"onStartup\": 1}'\n"
}

func lines(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// configsOf returns the configurations of the hooks of state, whose log is written to log.
func configsOf(t *testing.T, log io.Writer) (configs *hooks.Configs, state *scan.State, mounted string) {
	t.Helper()
	o, mounted, _ := scantest.Options(t)
	o.GlobalHooksDir, o.Log = t.TempDir(), zerolog.New(log)
	state = scan.New(o, nil)
	return hooks.New(state.DB, state.Log, scantest.Runner(t), state.Modules), state, mounted
}

func TestAHookIsAskedAgainOnlyIfItsCodeHasChanged(t *testing.T) {
	t.Parallel()
	configs, state, mounted := configsOf(t, io.Discard)
	asked := filepath.Join(t.TempDir(), "asked")
	scantest.Program(t, mounted, "010-web/hooks/x.sh", counting(asked))
	scantest.Scan(t, state)
	ask := func() hooks.Found {
		out, err := configs.AskModule(t.Context(), "web")
		if err != nil {
			t.Fatal(err)
		}
		var found hooks.Found
		if err := json.Unmarshal(out.Data, &found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	first := ask()
	if diff := cmp.Diff(first, ask(), cmp.AllowUnexported(hooks.Found{})); diff != "" || lines(t, asked) != 1 {
		t.Errorf("the same code was asked %d times (-first +second):\n%s", lines(t, asked), diff)
	}
	if h := first.Hooks["hooks/x.sh"]; h.Digest != first.Digest || h.Code == "" || !strings.Contains(string(h.Config), "onStartup") {
		t.Errorf("got %+v", h)
	}

	// The directory of the module gets another number.
	if err := os.Rename(filepath.Join(mounted, "010-web"), filepath.Join(mounted, "020-web")); err != nil {
		t.Fatal(err)
	}
	scantest.Scan(t, state)
	var file hook.File
	if err := json.Unmarshal(ask().Hooks["hooks/x.sh"].File, &file); err != nil || file.Path != mounted+"/020-web/hooks/x.sh" || lines(t, asked) != 1 {
		t.Errorf("a moved hook is at %s, asked %d times: %v", file.Path, lines(t, asked), err)
	}

	scantest.Write(t, mounted, "020-web/hooks/README.md", "text") // not part of the code
	if second := ask(); lines(t, asked) != 1 || second.Digest != first.Digest {
		t.Errorf("with a text beside it, the hook was asked %d times", lines(t, asked))
	}
	scantest.Write(t, mounted, "020-web/values.yaml", "web: {}\n")
	second := ask()
	if h := second.Hooks["hooks/x.sh"]; lines(t, asked) != 2 || second.Digest == first.Digest || h.Code != first.Hooks["hooks/x.sh"].Code {
		t.Errorf("with other values, the hook was asked %d times, and has the code %s", lines(t, asked), h.Code)
	}
	scantest.Program(t, mounted, "020-web/hooks/x.sh", counting(asked)+":\n")
	if h := ask().Hooks["hooks/x.sh"]; lines(t, asked) != 3 || h.Code == first.Hooks["hooks/x.sh"].Code {
		t.Errorf("with other code, the hook was asked %d times, and has the code %s", lines(t, asked), h.Code)
	}
}

func TestOneHookThatDoesNotAnswerMakesItsModuleUnusable(t *testing.T) {
	t.Parallel()
	log := &bytes.Buffer{}
	configs, state, mounted := configsOf(t, log)
	scantest.Program(t, mounted, "010-web/hooks/bad.sh", "#!/bin/sh\necho broken >&2\nexit 3\n")
	scantest.Program(t, mounted, "010-web/hooks/good.sh", scantest.GoodHook)
	scantest.Program(t, mounted, "020-good/hooks/good.sh", scantest.GoodHook)
	scantest.Write(t, mounted, "030-yaml/values.yaml", "yaml: [")
	scantest.Write(t, mounted, "040-none/values.yaml", "none: {}\n")
	set, err := state.Scan()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		broken, err := configs.CheckHooks(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		if names := slices.Collect(maps.Keys(broken)); !slices.Equal(names, []string{"web"}) || !strings.Contains(broken["web"].Error(), "hooks/bad.sh --config") {
			t.Errorf("got %v", broken)
		}
	}
	if n := strings.Count(log.String(), "module cannot be loaded and stays as it was: module web: "); n != 1 {
		t.Errorf("the broken hook was logged %d times:\n%s", n, log)
	}
	checked, err := configs.CheckModules(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, c := range checked {
		if c.Order != set.Modules[i].Order {
			t.Errorf("module %s has the order %d, want %d", c.Name, c.Order, set.Modules[i].Order)
		}
		state := "good"
		if c.Broken != "" {
			state = "broken"
		}
		got = append(got, c.Name+" "+state)
	}
	if want := []string{"web broken", "good good", "yaml broken", "none good"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := configs.AskModule(t.Context(), "web"); err == nil || !strings.Contains(err.Error(), "hooks/bad.sh") {
		t.Errorf("the module can be asked: %v", err)
	}
}

func TestADeletionGoesOnWithoutHooksThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	log := &bytes.Buffer{}
	configs, state, mounted := configsOf(t, log)
	scantest.Program(t, mounted, "010-web/hooks/bad.sh", "#!/bin/sh\nexit 3\n")
	scantest.Program(t, mounted, "010-web/hooks/good.sh", scantest.GoodHook)
	scantest.Program(t, mounted, "020-good/hooks/good.sh", scantest.GoodHook)
	scantest.Scan(t, state)
	out, without, err := configs.AskAnswering(t.Context(), "web")
	if err != nil || !strings.HasPrefix(without, ", without hooks/bad.sh: ") {
		t.Errorf("got %q, %v", without, err)
	}
	var found hooks.Found
	if err := json.Unmarshal(out.Data, &found); err != nil {
		t.Fatal(err)
	}
	if names := slices.Collect(maps.Keys(found.Hooks)); !slices.Equal(names, []string{"hooks/good.sh"}) {
		t.Errorf("the hooks of the deletion are %q", names)
	}
	if !strings.Contains(log.String(), `"hooks":["hooks/bad.sh"]`) {
		t.Errorf("logged is %s", log)
	}
	if out, without, err := configs.AskAnswering(t.Context(), "good"); err != nil || without != "" || len(out.Data) == 0 {
		t.Errorf("a module whose hooks answer: %q, %v", without, err)
	}
	if out, without, err := configs.AskAnswering(t.Context(), "gone"); err != nil || without != "" || out.Detail != "its directory is gone" || out.Data != nil {
		t.Errorf("a module without a directory: %+v, %q, %v", out, without, err)
	}
}

func TestAHookThatHangsStopsNoStepThatAsksIt(t *testing.T) {
	t.Parallel()
	_, state, mounted := configsOf(t, io.Discard)
	configs := hooks.New(state.DB, state.Log, scantest.ImpatientRunner(t), state.Modules)
	scantest.Program(t, mounted, "010-web/hooks/hangs.sh", "#!/bin/sh\nexec sleep 1000\n")
	scantest.Scan(t, state)
	const want = "hook hooks/hangs.sh --config: timed out"
	out, without, err := configs.AskAnswering(t.Context(), "web")
	if err != nil || !strings.HasPrefix(without, ", without hooks/hangs.sh: "+want) || len(out.Data) == 0 {
		t.Errorf("the deletion of the module: got %q, %v", without, err)
	}
	if _, err := configs.AskModule(t.Context(), "web"); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the run of the module: got %v", err)
	}
	broken, err := configs.CheckHooks(t.Context(), state.Modules.Disk())
	if err != nil || broken["web"] == nil || !strings.HasPrefix(broken["web"].Error(), want) {
		t.Errorf("the discovery: got %v, %v", broken, err)
	}
}

// If a hook is killed because the operator stops, the deletion must not continue without this hook.
func TestAnInterruptedDeletionLeavesNoHooksOut(t *testing.T) {
	t.Parallel()
	configs, state, mounted := configsOf(t, io.Discard)
	scantest.Program(t, mounted, "010-web/hooks/x.sh", scantest.GoodHook)
	scantest.Scan(t, state)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, without, err := configs.AskAnswering(ctx, "web"); err == nil || without != "" {
		t.Errorf("got %q, %v", without, err)
	}
	if _, err := configs.CheckHooks(ctx, state.Modules.Disk()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestABrokenModuleIsNotAsked(t *testing.T) {
	t.Parallel()
	configs, state, mounted := configsOf(t, io.Discard)
	asked := filepath.Join(t.TempDir(), "asked")
	scantest.Program(t, mounted, "010-web/hooks/x.sh", counting(asked))
	scantest.Write(t, mounted, "010-web/values.yaml", "web: [")
	scantest.Scan(t, state)
	broken, _ := state.Modules.Disk().Find("web")
	if _, err := configs.AskModule(t.Context(), "web"); !errors.Is(err, broken.Broken) {
		t.Errorf("got %v, want %v", err, broken.Broken)
	}
	if n := lines(t, asked); n != 0 {
		t.Errorf("its hook was asked %d times", n)
	}
}

func TestFilesThatAreNoHooksAreLoggedOnce(t *testing.T) {
	t.Parallel()
	log := &bytes.Buffer{}
	configs, state, mounted := configsOf(t, log)
	scantest.Program(t, mounted, "010-web/hooks/x.sh", scantest.GoodHook)
	scantest.Write(t, mounted, "010-web/hooks/README.md", "text")
	scantest.Write(t, mounted, "010-web/hooks/script.sh", "#!/bin/sh\n")
	scantest.Scan(t, state)
	for range 2 {
		if _, err := configs.CheckHooks(t.Context(), state.Modules.Disk()); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "file among the hooks of module web is not a hook: "+mounted+"/010-web/hooks/script.sh: "); n != 1 {
		t.Errorf("it was logged %d times:\n%s", n, log)
	}
}
