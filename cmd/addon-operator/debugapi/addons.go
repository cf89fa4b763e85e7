package debugapi

import (
	"errors"
	"net/http"

	"addon-operator/cmd/addon-operator/debugapi/addons"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// addonPages serves the registered addons, and catalogs of these addons for service brokers.
type addonPages struct{ db *store.DB }

// addonsRoute serves the pages of the commands "addons list", "addons get" and "addons why".
func (pages addonPages) addonsRoute(r *http.Request, what string) (Page, error) {
	var p Page
	err := pages.db.View(func(tx *store.Tx) (err error) {
		switch name := r.URL.Query().Get("name"); what {
		case "list":
			data, err := addons.Registered(tx)
			p = Page{data, func(layout inspect.Layout) string { return addons.ListText(&data, layout) }}
			return err
		case "get":
			data, err := addons.Get(tx, name)
			p = Page{Data: data}
			return err
		case "why":
			data, err := addons.Explain(tx, name)
			p = Page{data, func(layout inspect.Layout) string { return addons.WhyText(&data, layout) }}
			return err
		}
		return notFound("there is no /addons/%s: ask for /addons/list, /addons/get or /addons/why", what)
	})
	if unknown := (*addons.UnknownError)(nil); errors.As(err, &unknown) {
		err = notFound("%w", err)
	}
	return p, err
}

// catalogRoutes adds the catalogs of the cluster and of namespaces. Catalogs contain no values.
func (pages addonPages) catalogRoutes(mux *http.ServeMux) {
	serve := func(w http.ResponseWriter, scope registry.Scope) {
		c, err := addons.CatalogOf(pages.db, scope)
		if err == nil {
			err = Page{Data: c}.Write(w, "json")
		}
		if err != nil {
			Fail(w, err)
		}
	}
	mux.HandleFunc("GET /cluster/v2/catalog", func(w http.ResponseWriter, _ *http.Request) { serve(w, registry.Cluster) })
	mux.HandleFunc("GET /ns/{namespace}/v2/catalog", func(w http.ResponseWriter, r *http.Request) {
		serve(w, registry.Scope(r.PathValue("namespace")))
	})
}
