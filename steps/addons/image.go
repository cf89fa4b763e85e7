package addons

import (
	"addon-operator/internal/api"
	"addon-operator/steps/addons/failure"
)

// imageModules returns the modules of the operator's image. A module that is made from an addon must not have the
// name of one of these modules. If addons of the configuration cannot be used as modules, imageModules returns nil.
// The argument marked says whether the configuration has the annotation for modules.
func (r *Runtime) imageModules(id api.Identity, marked bool) (failure.ImageModules, error) {
	if r.ImageModules == nil || id.Namespace != "" || !marked && !r.AllAsModules {
		return nil, nil
	}
	return r.ImageModules()
}

// Image returns the checksum of the names of modules in the operator's image, as [store.Configuration] stores it. The
// argument marked says whether the configuration has the annotation for modules.
func (r *Runtime) Image(id api.Identity, marked bool) (string, error) {
	image, err := r.imageModules(id, marked)
	return image.Digest(), err
}
