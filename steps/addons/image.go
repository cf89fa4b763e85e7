package addons

import (
	"addon-operator/internal/api"
	"addon-operator/steps/addons/failure"
)

// imageModules returns the modules of the image whose names the addons of the configuration must not have. If the
// addons cannot be used as modules, it returns nil. marked is true if the configuration has the annotation for
// modules.
func (r *Runtime) imageModules(id api.Identity, marked bool) (failure.ImageModules, error) {
	if r.ImageModules == nil || id.Namespace != "" || !marked && !r.AllAsModules {
		return nil, nil
	}
	return r.ImageModules()
}

// Image returns the checksum of the names of the image's modules, as [store.Configuration] stores it. See
// imageModules for marked.
func (r *Runtime) Image(id api.Identity, marked bool) (string, error) {
	image, err := r.imageModules(id, marked)
	return image.Digest(), err
}
