package addons

import (
	"addon-operator/internal/api"
	"addon-operator/steps/addons/failure"
)

// imageModules returns the modules that addons of a configuration must not have the names of: none if
// the addons cannot be used as modules. Marked says that the configuration is marked so.
func (r *Runtime) imageModules(id api.Identity, marked bool) (failure.ImageModules, error) {
	if r.ImageModules == nil || id.Namespace != "" || !marked && !r.AllAsModules {
		return nil, nil
	}
	return r.ImageModules()
}

// Image returns what identifies the modules of the image, as [store.Configuration] has it.
func (r *Runtime) Image(id api.Identity, marked bool) (string, error) {
	image, err := r.imageModules(id, marked)
	return image.Digest(), err
}
