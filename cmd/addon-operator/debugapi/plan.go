package debugapi

import "net/http"

// A PlanRequest says what to plan in another way than the operator runs.
type PlanRequest struct {
	// ModulesDirs and GlobalHooksDir are directories to use instead of those of the operator; empty for its own.
	ModulesDirs, GlobalHooksDir string
	// ConfigMap is the text of a ConfigMap to use instead of the one in the cluster; nil for that.
	ConfigMap []byte
	// Modules are those to plan; empty for all.
	Modules []string
	// ShowSecrets shows values that are masked otherwise.
	ShowSecrets bool
}

// planRoute answers what a converge would do, as JSON. It changes nothing; it is a POST because the ConfigMap can be
// longer than a URL.
func (api *API) planRoute(w http.ResponseWriter, r *http.Request) {
	if api.Plan == nil {
		Fail(w, errNotRunning)
		return
	}
	if err := r.ParseForm(); err != nil {
		Fail(w, BadRequest("read the request: %v", err))
		return
	}
	request := PlanRequest{
		ModulesDirs: r.PostForm.Get("modules-dir"), GlobalHooksDir: r.PostForm.Get("global-hooks-dir"), Modules: r.PostForm["module"],
		ShowSecrets: r.PostForm.Get("show-secrets") == "true",
	}
	if r.PostForm.Has("config-map") {
		request.ConfigMap = []byte(r.PostForm.Get("config-map"))
	}
	found, err := api.Plan(r.Context(), request)
	if err == nil {
		err = Page{Data: found}.Write(w, "json")
	}
	if err != nil {
		Fail(w, err)
	}
}
