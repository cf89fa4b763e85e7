package webui

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"addon-operator/cmd/addon-operator/debugapi"
	sections "addon-operator/internal/values"
)

// values is the model of the view that shows the values of a section, with their origins.
type values struct {
	frame

	// Module is the name of a module, or "global". If Path is set, the view shows only the values
	// at this path and below it.
	Module, Path string
	Modules      []string
	Rows         []valueRow
	Hidden       int // number of values that are not shown, because there are more than shownValues; 0 or less if all values are shown
}

// Global reports whether the view shows the global values.
func (v *values) Global() bool { return v.Module == sections.Global }

// Others returns the names of all modules, without "global".
func (v *values) Others() []string { return v.Modules[1:] }

// A valueRow is an effective value, with the values of other origins that it overrides.
type valueRow struct {
	sections.LayerValue

	Overrides []sections.LayerValue
}

// shownValues is the maximum number of values in one view.
const shownValues = 300

func (p *reader) values(r *http.Request) (model, error) {
	v := &values{Module: cmp.Or(r.PathValue("module"), r.FormValue("module"), sections.Global), Path: strings.TrimSpace(r.FormValue("path"))}
	v.frame = p.frame(r, "Values of "+v.Module, command("values", "explain", v.Module, v.Path))
	var list debugapi.ModuleList
	if err := p.api.get(r.Context(), "/module/list", nil, &list); err != nil {
		return nil, err
	}
	v.Modules = []string{sections.Global}
	for i := range list.Modules {
		v.Modules = append(v.Modules, list.Modules[i].Name)
	}
	route, key := "/global/origins", sections.Global
	if v.Module != sections.Global {
		route, key = "/module/"+url.PathEscape(v.Module)+"/origins", sections.Camel(v.Module)
	}
	var said []sections.LayerValue
	if err := p.api.get(r.Context(), route, nil, &said); err != nil {
		return nil, err
	}
	if v.Path != "" {
		said = sections.Below(said, key, v.Path)
	}
	for _, s := range said {
		if n := len(v.Rows); s.Overridden && n > 0 && v.Rows[n-1].Path == s.Path {
			v.Rows[n-1].Overrides = append(v.Rows[n-1].Overrides, s)
			continue
		}
		v.Rows = append(v.Rows, valueRow{LayerValue: s})
	}
	if v.Hidden = len(v.Rows) - shownValues; v.Hidden > 0 {
		v.Rows = v.Rows[:shownValues]
	}
	return v, nil
}
