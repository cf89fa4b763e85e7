package webui_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/webui"
)

// answers has the answers of a fake debug API, by path without query.
type answers map[string]any

// view returns a view of the web page. The view shows the data of a fake debug API that has these answers. For other
// paths, the debug API returns an empty object or list.
func (a answers) view(t *testing.T, path string, actions bool) string {
	t.Helper()
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := a[strings.TrimSuffix(r.URL.Path, ".json")]
		switch {
		case ok:
		case r.URL.Path == "/hook/list.json", r.URL.Path == "/global/origins.json", strings.HasSuffix(r.URL.Path, "/origins.json"):
			answer = []any{}
		default:
			answer = struct{}{}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	})
	page := webui.Handler(webui.Options{API: api, Graphs: debugapi.Graphs, Version: "v1", Process: "p1", Actions: actions})
	response := httptest.NewRecorder()
	page.ServeHTTP(response, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	if response.Code != http.StatusOK {
		t.Fatalf("%s: status %d: %s", path, response.Code, response.Body)
	}
	return response.Body.String()
}

// inOrder checks that a view contains texts in the given order.
func inOrder(t *testing.T, view string, texts ...string) {
	t.Helper()
	rest := view
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Fatalf("%q is missing, or is before an earlier text:\n%s", text, view)
		}
		rest = after
	}
}
