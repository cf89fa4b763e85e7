package debugapi

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/store/storetest"
)

// renderedAs returns routes for a module web. The argument now is the rendered chart of the module, and the argument
// released is the manifest of its release.
func renderedAs(t *testing.T, now, released string) http.Handler {
	t.Helper()
	db := storetest.Memory(t)
	if err := db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true})
	}); err != nil {
		t.Fatal(err)
	}
	return (&API{DB: db, Now: time.Now, Render: func(_ context.Context, _ string, loose, _ bool) (string, string, error) {
		if loose {
			return "", "", errors.New("port: must be a number")
		}
		return now, released, nil
	}}).Routes()
}

const (
	secretDocument  = "kind: Secret\nmetadata: {name: s}\nstringData: {a: hunter2}\n"
	configDocument  = "kind: ConfigMap # as written\nmetadata: {name: c}\ndata: {a: \"1\"}\n"
	damagedDocument = "kind: Secret\nstringData: {a: hunter3\n"
)

func TestRenderedChartIsShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	h := renderedAs(t, secretDocument+"---\n---\n"+configDocument+"---\n"+damagedDocument, "")
	status, text := ask(h, "/module/web/render")
	if status != http.StatusOK || strings.Contains(text, "hunter") {
		t.Errorf("status %d, a secret is shown:\n%s", status, text)
	}
	for _, want := range []string{"name: s\n", "kind: ConfigMap # as written\n", "# left out, because it cannot be parsed and can contain secrets"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "---\n"); n != 3 {
		t.Errorf("%d documents, want 3:\n%s", n, text)
	}
}

func TestRenderedChartIsShownAsItIsOnRequest(t *testing.T) {
	t.Parallel()
	h := renderedAs(t, secretDocument+"---\n"+damagedDocument, "")
	if _, text := ask(h, "/module/web/render?show-secrets=true"); text != secretDocument+"---\n"+damagedDocument {
		t.Errorf("the chart is shown as\n%s", text)
	}
}

func TestDifferenceOfAChartFromItsReleaseHasNoSecrets(t *testing.T) {
	t.Parallel()
	changed := strings.Replace(configDocument, `"1"`, `"2"`, 1)
	status, text := ask(renderedAs(t, secretDocument+"---\n"+changed, strings.Replace(secretDocument, "hunter2", "hunter1", 1)+"---\n"+configDocument), "/module/web/render?diff=true")
	for _, want := range []string{"web as released", "web as rendered now", `-data: {a: "1"}`, `+data: {a: "2"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if status != http.StatusOK || strings.Contains(text, "hunter") {
		t.Errorf("status %d, a secret is shown:\n%s", status, text)
	}
	if _, text := ask(renderedAs(t, configDocument, configDocument), "/module/web/render?diff=true"); text != "no difference\n" {
		t.Errorf("equal manifests: %q", text)
	}
}

func TestADifferenceOfASecretIsShownByHashes(t *testing.T) {
	t.Parallel()
	h := renderedAs(t, secretDocument, strings.Replace(secretDocument, "hunter2", "hunter1", 1))
	_, text := ask(h, "/module/web/render?diff=true")
	if !regexp.MustCompile(`(?m)^-  a: \(redacted [0-9a-f]{8}\)\n\+  a: \(redacted [0-9a-f]{8}\)$`).MatchString(text) {
		t.Errorf("the Secret differs, but the answer is\n%s", text)
	}
}

func TestAChartThatCannotBeRenderedSaysWhy(t *testing.T) {
	t.Parallel()
	h := renderedAs(t, configDocument, "")
	stopped := (&API{DB: storetest.Memory(t), Now: time.Now}).Routes()
	for _, c := range []struct {
		from   http.Handler
		path   string
		status int
		want   string
	}{
		{h, "/module/web/render?debug=true", http.StatusInternalServerError, "module web: port: must be a number"},
		{h, "/module/wed/render", http.StatusNotFound, `"wed"`},
		{stopped, "/module/web/render", http.StatusConflict, "ask a running operator"},
	} {
		if status, text := ask(c.from, c.path); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: status %d, %q; want %d, %q", c.path, status, text, c.status, c.want)
		}
	}
}
