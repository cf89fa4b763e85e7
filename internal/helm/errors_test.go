package helm_test

import (
	"testing"

	"k8s.io/client-go/rest"

	"addon-operator/internal/helm"
)

func TestChartThatDoesNotRenderIsReported(t *testing.T) {
	t.Parallel()
	b := start(t)
	for name, c := range map[string]struct {
		files files
		want  []string
	}{
		"syntax": {
			files{"Chart.yaml": chartYAML, "templates/a.yaml": "kind: X\n{{ if }}\n"},
			[]string{"templates/a.yaml:2", "missing value for if"},
		},
		"a value that is missing": {
			files{"Chart.yaml": chartYAML, "templates/a.yaml": "kind: X\nname: {{ required \"set it\" .Values.it }}\n"},
			[]string{"templates/a.yaml:2", "set it"},
		},
		"no YAML": {
			files{"Chart.yaml": chartYAML, "templates/a.yaml": "kind: [\n"},
			[]string{"templates/a.yaml", "YAML parse error"},
		},
		"text": {
			files{"Chart.yaml": chartYAML, "templates/a.yaml": "- just\n- a list\n"},
			[]string{"templates/a.yaml"},
		},
		"no apiVersion": {
			files{"Chart.yaml": chartYAML, "templates/a.yaml": "kind: ConfigMap\nmetadata: {name: a}\n"},
			[]string{"templates/a.yaml", "no apiVersion"},
		},
		"no kind": {
			files{"Chart.yaml": chartYAML, "templates/a.yaml": "apiVersion: v1\nmetadata: {name: a}\n"},
			[]string{"templates/a.yaml", "no kind"},
		},
		"a name that is missing": {
			files{"Chart.yaml": chartYAML, "templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n"},
			[]string{"templates/a.yaml", "metadata.name"},
		},
		"values": {
			files{"Chart.yaml": chartYAML, "values.yaml": "a: [", "templates/a.yaml": configMap("a")},
			[]string{"values.yaml"},
		},
		"Chart.yaml": {
			files{"Chart.yaml": "name: x\n", "templates/a.yaml": configMap("a")},
			[]string{"chart.metadata.version is required"},
		},
		"schema": {
			files{
				"Chart.yaml": chartYAML, "values.yaml": "size: 5\n", "templates/a.yaml": configMap("a"),
				"values.schema.json": `{"properties": {"size": {"type": "string"}}}`,
			},
			[]string{"size"},
		},
		"no chart": {
			files{"hooks/startup": ""},
			[]string{"neither Chart.yaml nor templates/"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := module(t, "broken", c.files)
			_, err := b.Render(t.Context(), r)
			wantError(t, err, append(c.want, `render release "broken"`)...)
			_, err = b.Upgrade(t.Context(), r, helm.Manifest{Checksum: "any"})
			wantError(t, err, append(c.want, `upgrade release "broken"`)...)
		})
	}
	b.state(t, "broken", helm.State{Status: helm.Absent})
}

func TestNameTooLongIsRefused(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := small(t, "a-module-with-a-name-that-is-longer-than-helm-lets-it-be")
	_, err := b.Render(t.Context(), r)
	wantError(t, err, r.Name, "53")
}

func TestClusterThatIsAwayIsReported(t *testing.T) {
	t.Parallel()
	c, err := helm.New(helm.Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}, Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	r := small(t, "web")
	_, err = c.Render(t.Context(), r)
	wantError(t, err, `render release "web"`, "connection refused")
	_, err = c.Find(t.Context(), "web")
	wantError(t, err, `look for release "web"`, "connection refused")
	_, err = c.Upgrade(t.Context(), r, helm.Manifest{Checksum: "any"})
	wantError(t, err, `upgrade release "web"`, "connection refused")
	_, err = c.Uninstall(t.Context(), "web")
	wantError(t, err, `look for release "web"`, "connection refused")
	_, err = c.List(t.Context())
	wantError(t, err, "list releases", "connection refused")
	_, err = c.Missing(t.Context(), []helm.Object{{APIVersion: "v1", Kind: "Secret", Name: "a"}})
	wantError(t, err, "Secret a", "connection refused")
}

func TestOptionsThatAreNeededAreAskedFor(t *testing.T) {
	t.Parallel()
	_, err := helm.New(helm.Options{Namespace: "default"})
	wantError(t, err, "Options.Config is nil")
	_, err = helm.New(helm.Options{Config: &rest.Config{}})
	wantError(t, err, "Options.Namespace is empty")
}

func TestReleaseRecordLargerThanASecretIsReported(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := module(t, "large", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("a"), "docs/noise": noise(2 << 20)})
	_, err := b.Upgrade(t.Context(), r, helm.Manifest{Checksum: "any"})
	wantError(t, err, `upgrade release "large"`, "1 MiB", ".helmignore")
}

// noise returns n bytes of text that gzip cannot make much smaller.
func noise(n int) string {
	text, x := make([]byte, n), uint64(88172645463325252)
	for i := range text {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		text[i] = byte(x>>32)%94 + 33
	}
	return string(text)
}
