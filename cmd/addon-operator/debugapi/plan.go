package debugapi

import "net/http"

// A PlanRequest has the options of a plan. The zero PlanRequest requests the plan of a converge of all modules, with
// the current directories and the current ConfigMap.
type PlanRequest struct {
	// ModulesDirs and GlobalHooksDir replace the directories of the operator, if they are not empty.
	ModulesDirs, GlobalHooksDir string
	// ConfigMap is the text of a ConfigMap that the plan uses instead of the ConfigMap in the cluster. If nil, the plan
	// uses the ConfigMap in the cluster.
	ConfigMap []byte
	// Modules has the modules in the plan; empty means all modules.
	Modules []string
	// ShowSecrets disables the masking of secrets.
	ShowSecrets bool
}

// planRoute serves the plan of a converge as JSON. planRoute changes nothing. The method is POST, because a ConfigMap
// can be longer than a URL.
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
