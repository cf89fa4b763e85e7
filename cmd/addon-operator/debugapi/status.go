package debugapi

import (
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"addon-operator/internal/metrics"
	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// statusRoutes adds the routes of the status and of the diagnosis of the operator.
func (api *API) statusRoutes(mux *http.ServeMux) {
	for path, page := range map[string]func() (Page, error){"GET /status": api.status, "GET /diagnosis": api.diagnosis} {
		for _, format := range []string{"", "text", "yaml", "json"} {
			mux.HandleFunc(strings.TrimSuffix(path+"."+format, "."), func(w http.ResponseWriter, _ *http.Request) {
				p, err := page()
				if err == nil {
					err = p.Write(w, format)
				}
				if err != nil {
					Fail(w, err)
				}
			})
		}
	}
}

// status returns the page with the status of the running operator, or of the store of a stopped
// operator.
func (api *API) status() (Page, error) {
	var status *inspect.Status
	reader, operator := api.reader(), api.operator()
	err := api.DB.View(func(tx *store.Tx) (err error) {
		status, err = reader.Status(tx, operator)
		return err
	})
	if err != nil {
		return Page{}, err
	}
	return Page{status, func(layout inspect.Layout) string { layout.Now = status.At; return inspect.StatusText(status, layout) }}, nil
}

// diagnosis returns the page with the findings about the running operator, or about the store of a
// stopped operator.
func (api *API) diagnosis() (Page, error) {
	var diagnosis *inspect.Diagnosis
	reader, operator := api.reader(), api.operator()
	err := api.DB.View(func(tx *store.Tx) (err error) {
		diagnosis, err = reader.Diagnose(tx, operator)
		return err
	})
	if err != nil {
		return Page{}, err
	}
	return Page{diagnosis, func(layout inspect.Layout) string {
		layout.Now = diagnosis.At
		return inspect.DiagnosisText(diagnosis, layout)
	}}, nil
}

// reader returns a reader for the status and the diagnosis.
func (api *API) reader() *inspect.Reader {
	reader := api.runs().reader()
	reader.Requests = api.requests()
	return reader
}

// operator returns the part of the status that is not in the store.
func (api *API) operator() inspect.StatusOperator {
	o := inspect.StatusOperator{Version: api.Version, Namespace: api.Namespace, Started: api.Began, Store: api.Path}
	if api.Standby != nil {
		is := api.Standby()
		o.Standby, o.StandbySince, o.StandbyError = is.Text, is.Since, is.Error
	}
	if api.Lease != nil {
		o.Lease = api.Lease()
	}
	if api.Skew != nil {
		o.Skew, o.SkewSince = api.Skew()
	}
	if info, err := os.Stat(api.Path); err == nil {
		o.StoreBytes = info.Size()
	}
	o.Aside, _ = store.Beside(api.Path, ".cluster-*") // if the directory cannot be read, the list is empty
	for _, path := range o.Aside {
		var file unix.Stat_t
		if unix.Stat(path, &file) != nil {
			continue
		}
		if changed := time.Unix(file.Ctim.Unix()); changed.After(o.AsideSince) { // a rename changes the ctime of a file, and not its mtime
			o.AsideSince = changed.UTC()
		}
	}
	if free, err := store.FreeBytes(api.Path); err == nil {
		o.FreeBytes = &free
	}
	return o
}

// requests describes the requests to the API server in the last minutes; nil if no operator runs.
func (api *API) requests() *inspect.Requests {
	if api.Requests == nil {
		return nil
	}
	r := api.Requests()
	return &inspect.Requests{Span: metrics.RequestSpan, Answered: r.Answered, Within: r.Within, Throttled: r.Throttled, Failed: r.Failed}
}
