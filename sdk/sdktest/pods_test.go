package sdktest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/itchyny/gojq/cli"

	"addon-operator/sdk"
	"addon-operator/sdk/sdktest"
)

// TestMain makes this test program act as jq if it is called by the name jq. So the tests of scripts also run on
// systems without jq.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "jq" {
		os.Exit(cli.Run())
	}
	code, err := run(m)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	tools, err := os.MkdirTemp("", "sdktest-tools-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(tools) }() // if this fails, the temporary directory remains
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	if err := os.Symlink(program, filepath.Join(tools, "jq")); err != nil {
		return 0, err
	}
	if err := os.Setenv("PATH", os.Getenv("PATH")+":"+tools); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

type pod struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
}

// podsHook returns a hook that keeps the list of ready pods in the values, labels each added pod, and counts deleted
// pods.
func podsHook() sdk.Hook {
	return sdk.Hook{
		Config: sdk.Config{
			BeforeHelm: new(10),
			Kubernetes: []sdk.Kubernetes{{
				Name: "pods", Kind: "Pod", LabelSelector: &sdk.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				JqFilter: "{name: .metadata.name, ready: (.status.ready == true)}", KeepFullObjectsInMemory: new(false),
				IncludeSnapshotsFrom: []string{"pods"},
			}},
			Schedule: []sdk.Schedule{{Name: "tick", Crontab: "* * * * *", IncludeSnapshotsFrom: []string{"pods"}}},
		},
		Run: func(_ context.Context, r *sdk.Run) error {
			pods, err := sdk.Snapshot[pod](r, "pods")
			if err != nil {
				return err
			}
			ready := []string{}
			for _, p := range pods {
				if p.Ready {
					ready = append(ready, p.Name)
				}
			}
			r.Values.Set("web.ready", ready)
			for _, e := range r.Elements {
				if e.Type != sdk.TypeEvent {
					continue
				}
				p, err := sdk.Decode[pod](e.Item)
				if err != nil {
					return err
				}
				switch e.WatchEvent {
				case sdk.Added:
					r.Objects.MergePatch(sdk.Ref{Kind: "pod", Namespace: "default", Name: p.Name},
						map[string]any{"metadata": map[string]any{"labels": map[string]string{"seen": "yes"}}})
				case sdk.Deleted:
					r.Metrics.Add("pods_deleted", 1, map[string]string{"pod": p.Name})
				}
			}
			r.Log.Info("looked", "pods", len(pods))
			return nil
		},
	}
}

// podsScript is the hook of podsHook as a script in bash.
const podsScript = `#!/usr/bin/env bash
source /shell_lib.sh

__config__() {
  cat <<'END'
configVersion: v1
beforeHelm: 10
kubernetes:
- name: pods
  kind: Pod
  labelSelector: {matchLabels: {app: web}}
  jqFilter: '{name: .metadata.name, ready: (.status.ready == true)}'
  keepFullObjectsInMemory: false
  includeSnapshotsFrom: [pods]
schedule:
- name: tick
  crontab: "* * * * *"
  includeSnapshotsFrom: [pods]
END
}

__main__() {
  values::set web.ready "$(context::jq -c '[.snapshots.pods[].filterResult | select(.ready).name]')"
}

__on_kubernetes::pods::added() {
  __main__
  kubernetes::merge_patch default "pod/$(context::get filterResult.name)" '{"metadata":{"labels":{"seen":"yes"}}}'
}

__on_kubernetes::pods::deleted() {
  __main__
  context::jq -c '{name: "pods_deleted", action: "add", value: 1, labels: {pod: .filterResult.name}}' >>"$METRICS_PATH"
}

hook::run "$@"
`

func script(t *testing.T, text string) sdktest.Subject {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hook.sh")
	syscall.ForkLock.RLock() // a process that is forked during the write inherits the open file, and the kernel executes no file that is open for writing
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return sdktest.File(path)
}

func podNamed(name, more string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: default, labels: {app: web}}" + more + "}\n---\n"
}

func want(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// runner returns a hook with this configuration, which calls the function run in each run.
func runner(config sdk.Config, run func(r *sdk.Run)) sdktest.Subject {
	return sdktest.Go(sdk.Hook{Config: config, Run: func(_ context.Context, r *sdk.Run) error { run(r); return nil }})
}
