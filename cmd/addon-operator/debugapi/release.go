package debugapi

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	sigsyaml "sigs.k8s.io/yaml"

	"addon-operator/internal/redact"
	"addon-operator/internal/tree"
	"addon-operator/store"
)

// noMonitor is the value in [monitored] for a module whose release the store does not have.
const noMonitor = "No monitor"

// monitored has the names of the objects whose deletion the operator watches, by module. A name has the form
// namespace/Kind/name, or Kind/name if the release names no namespace for the object. The value of a module without a
// release is noMonitor.
type monitored map[string]any

// monitors returns the monitored objects of each enabled module.
func (pages modulePages) monitors() (monitored, error) {
	out := monitored{}
	err := pages.db.View(func(tx *store.Tx) error {
		return eachModule(tx, func(name string, m store.Module) error {
			if !m.Enabled {
				return nil
			}
			release, has, err := store.Load[store.Release](tx, store.ReleaseKey(name))
			if !has || err != nil {
				out[name] = noMonitor
				return err
			}
			objects := []string{}
			for _, o := range release.Objects {
				objects = append(objects, strings.TrimPrefix(o.Namespace+"/", "/")+o.Kind+"/"+o.Name)
			}
			out[name] = objects
			return nil
		})
	})
	return out, err
}

// renderRoute serves the chart of a module, rendered with its current values. With diff=true, renderRoute serves the
// difference between the manifest of the installed release and the rendered chart. With debug=true, values are not
// validated, and template output that is not a valid manifest is served too.
func (pages modulePages) renderRoute(w http.ResponseWriter, r *http.Request) {
	text, err := pages.rendered(r)
	if err != nil {
		Fail(w, err)
		return
	}
	_, _ = io.WriteString(w, text)
}

func (pages modulePages) rendered(r *http.Request) (string, error) {
	name := r.PathValue("module")
	if pages.render == nil {
		return "", &routeError{http.StatusConflict, errors.New("a chart is rendered for the cluster of a running operator: ask a running operator, and leave --store out")}
	}
	if _, err := pages.moduleNamed(name); err != nil {
		return "", err
	}
	query := r.URL.Query()
	now, released, err := pages.render(r.Context(), name, query.Get("debug") == "true", query.Get("diff") == "true")
	if err != nil {
		return "", fmt.Errorf("module %s: %w", name, err)
	}
	if !showSecrets(r) {
		without, err := RedactorOf(pages.db)
		if err != nil {
			return "", err
		}
		now, released = redactManifest(now, without), redactManifest(released, without)
	}
	if query.Get("diff") != "true" {
		return now, nil
	}
	changes := diff.Diff(name+" as released", []byte(released), name+" as rendered now", []byte(now))
	return cmp.Or(string(changes), "no difference\n"), nil
}

// redactManifest returns the manifest with its secrets masked. The argument without is the redactor, which masks each
// document separately. A document that cannot be parsed is replaced by a comment.
func redactManifest(manifest string, without redact.Redactor) string {
	var out strings.Builder
	for _, part := range tree.Split([]byte(manifest)) {
		text := bytes.TrimSpace(part.Text)
		if len(text) == 0 {
			continue
		}
		out.WriteString("---\n")
		out.WriteString(redactDocument(text, without))
		out.WriteString("\n")
	}
	return out.String()
}

func redactDocument(text []byte, without redact.Redactor) string {
	var document any
	if err := sigsyaml.Unmarshal(text, &document); err != nil {
		return "# left out, because it cannot be parsed and can contain secrets; see it with --show-secrets"
	}
	before, err := sigsyaml.Marshal(document)
	if err != nil {
		return "# left out: " + err.Error()
	}
	hidden, err := without.Values(document)
	if err != nil {
		return "# left out: " + err.Error()
	}
	after, err := sigsyaml.Marshal(hidden)
	if err != nil {
		return "# left out: " + err.Error()
	}
	if bytes.Equal(before, after) {
		return string(text)
	}
	return strings.TrimSuffix(string(after), "\n")
}
