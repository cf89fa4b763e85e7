package debugapi

import (
	"fmt"
	"net/http"

	"addon-operator/workflow/inspect"
)

// graphRoute serves the modules in their order as a DOT graph. The color of a module shows its state, and
// the label says why the module is enabled or disabled.
func (pages modulePages) graphRoute(w http.ResponseWriter, r *http.Request) {
	if format := r.URL.Query().Get("format"); format != "" && format != "text" && format != "dot" {
		Fail(w, BadRequest("format %q is not served: ask for format=text, which is DOT, and draw it with dot -Tpng", format))
		return
	}
	list, err := pages.moduleList()
	if err != nil {
		Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/vnd.graphviz; charset=utf-8")
	_, _ = fmt.Fprintln(w, "digraph modules {\n\trankdir=LR\n\tnode [shape=box, style=filled]")
	before := ""
	for _, m := range list.Modules {
		colour := "lightgrey"
		switch {
		case m.Broken != "":
			colour = "salmon"
		case m.State == string(inspect.ModuleOn), m.State == string(inspect.ModuleRunning):
			colour = "palegreen"
		case m.Enabled:
			colour = "khaki"
		}
		_, _ = fmt.Fprintf(w, "\t%q [label=%q, fillcolor=%s]\n", m.Name, fmt.Sprintf("%d %s\n%s", m.Order, m.Name, m.Why+m.Broken), colour)
		if before != "" {
			_, _ = fmt.Fprintf(w, "\t%q -> %q\n", before, m.Name)
		}
		before = m.Name
	}
	_, _ = fmt.Fprintln(w, "}")
}
