package survey

import (
	"errors"
	"fmt"
	"slices"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// sharedObjects returns problems for objects that are in the releases of two enabled modules. Each upgrade of one of
// these modules overwrites the object of the other. The function returns one problem for each pair of modules. If more
// than two modules have an object, each further module is paired with the first. The argument known has the records of
// the modules, by name.
func sharedObjects(tx *store.Tx, known map[string]store.Module) (found []store.Problem, err error) {
	owners := map[store.Object]string{} // for each object, the first module whose release has it
	shared := map[[2]string]*store.Problem{}
	var pairs [][2]string
	for _, name := range installed(known) {
		release, _, err := store.Load[store.Release](tx, store.ReleaseKey(name))
		if errors.As(err, new(*store.RecordError)) {
			continue // the command "status" reports the record
		}
		if err != nil {
			return nil, err
		}
		for _, o := range release.Objects {
			first, taken := owners[o.Identity()]
			switch pair := [2]string{first, name}; {
			case !taken:
				owners[o.Identity()] = name
			case shared[pair] != nil:
				shared[pair].More++
			default:
				shared[pair] = sharedObject(o, first, name)
				pairs = append(pairs, pair)
			}
		}
	}
	for _, pair := range pairs {
		found = append(found, *shared[pair])
	}
	return found, nil
}

// installed returns the sorted names of the known modules that are enabled and installed.
func installed(known map[string]store.Module) (names []string) {
	for name, m := range known {
		if m.Enabled && m.State == store.On {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// sharedObject returns the problem of an object that two modules have.
func sharedObject(o store.Object, first, second string) *store.Problem {
	name := o.Kind + " " + o.Name
	if o.Namespace != "" {
		name = o.Kind + " " + o.Namespace + "/" + o.Name
	}
	return &store.Problem{
		Subject: graph.Subject{Module: second}, Object: name,
		Error: fmt.Sprintf("%s is in the charts of modules %s and %s: each upgrade of one module overwrites the object of the other", name, first, second),
		Fix:   "remove it from one of the charts, or disable one of the modules. Choose the module that the annotation meta.helm.sh/release-name of the object does not name; otherwise, the operator deletes the object and creates it again",
	}
}
