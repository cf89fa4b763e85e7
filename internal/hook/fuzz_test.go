package hook_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/internal/jq"
)

// FuzzLoad checks that Load returns a config or an error for any output of a hook, and that a
// config can be encoded as JSON and its parts can be used.
func FuzzLoad(f *testing.F) {
	f.Add(fullModuleConfig, true)
	f.Add(fullWebhookConfig, true)
	f.Add("\t{\n\t'configVersion': 'v1', 'beforeAll': 1,\n}\n\t", false)
	f.Fuzz(func(t *testing.T, text string, module bool) {
		scope := hook.Global
		if module {
			scope = hook.Module
		}
		config, err := hook.Load(scope, []byte(text))
		if err != nil {
			if diff := cmp.Diff(hook.Config{}, config); diff != "" {
				t.Errorf("an error and a config (-want +got):\n%s", diff)
			}
			return
		}
		stored, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		var back hook.Config
		if err := json.Unmarshal(stored, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(config, back); diff != "" {
			t.Errorf("after storing (-before +after):\n%s", diff)
		}
		checkUsable(t, config)
	})
}

func checkUsable(t *testing.T, config hook.Config) {
	t.Helper()
	for _, b := range config.Schedule {
		if _, err := hook.ParseCrontab(b.Crontab); err != nil || b.Queue == "" || b.Name == "" {
			t.Errorf("schedule binding %+v: %v", b, err)
		}
	}
	for _, b := range config.Kubernetes {
		if b.Queue == "" || b.Name == "" || b.Kind == "" || b.Events == nil {
			t.Errorf("kubernetes binding lacks a default: %+v", b)
		}
		if _, err := jq.Compile(b.JqFilter); b.JqFilter != "" && err != nil {
			t.Errorf("filter %q: %v", b.JqFilter, err)
		}
		for _, name := range b.IncludeSnapshotsFrom {
			if _, ok := config.KubernetesNamed(name); !ok {
				t.Errorf("snapshot of no binding: %q", name)
			}
		}
	}
}

// FuzzLoadLegacy checks that Load returns a config or an error for any output without a
// configVersion. All bindings of such a config must be in the main queue, have no group, and have
// no Synchronization.
func FuzzLoadLegacy(f *testing.F) {
	f.Add(`{"onKubernetesEvent":[{"kind":"Pod","event":["add"],"objectName":"x","disableDebug":true}]}`)
	f.Add("onStartup: 1\nschedule:\n- crontab: '@every 1m'\n  name: x\n")
	f.Add("{onKubernetesEvent: [{kind: ns, namespaceSelector: {any: True}, selector: {matchExpressions: [{key: a, operator: Exists,}]}}]}")
	f.Fuzz(func(t *testing.T, text string) {
		config, err := hook.Load(hook.Module, []byte(text))
		if err != nil || !config.Legacy() {
			return
		}
		checkUsable(t, config)
		for _, b := range config.Kubernetes {
			if b.Queue != hook.MainQueue || b.Group != "" || b.IncludeSnapshotsFrom != nil || b.ExecuteOnSynchronization || !b.Legacy || len(b.Events) == 0 {
				t.Errorf("legacy binding %+v", b)
			}
		}
		for _, b := range config.Schedule {
			if b.Queue != hook.MainQueue || b.Group != "" || b.IncludeSnapshotsFrom != nil || !b.Legacy {
				t.Errorf("legacy binding %+v", b)
			}
		}
	})
}
