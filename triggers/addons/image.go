package addons

import (
	"context"
	"fmt"
	"maps"

	"addon-operator/internal/api"
	"addon-operator/store"
	"addon-operator/workflow/addons"
)

// compareModules raises an event for each cluster-wide configuration whose addons were last
// compared with a set of modules that differs from the modules of the image. If the modules have
// not changed since the last call, compareModules does nothing. If the directories of modules
// cannot be read, compareModules also does nothing: the discovery of modules reports the error, and
// the modules are compared after their next change.
func (a *Trigger) compareModules(ctx context.Context) error {
	if a.Image == nil {
		return nil
	}
	images := map[bool]string{} // checksums of the modules; those under true are for configurations with the annotation for modules
	for _, marked := range []bool{false, true} {
		var err error
		if images[marked], err = a.Image(api.Identity{}, marked); err != nil {
			return nil //nolint:nilerr // the discovery of modules reports the error
		}
	}
	if maps.Equal(images, a.compared) {
		return nil
	}
	outdated, err := a.comparedWithOthers(images)
	if err != nil {
		return fmt.Errorf("compare addons with the modules of the image: %w", err)
	}
	for len(outdated) > 0 {
		n := 0
		if err := a.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
			for n = 0; n < len(outdated) && !tx.Spent(); n++ {
				if err := a.engine.Raise(tx, eventOf(outdated[n], addons.OnConfiguration, "the modules of the image changed")); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		outdated = outdated[n:]
	}
	a.compared = images
	return nil
}

// comparedWithOthers returns the cluster-wide configurations whose addons were last compared with other modules than
// those with the checksums in images.
func (a *Trigger) comparedWithOthers(images map[bool]string) (outdated []api.Identity, err error) {
	err = a.db.View(func(tx *store.Tx) error {
		outdated = nil
		for k := range tx.Range(store.ConfigurationsOf("")) {
			_, name, err := store.ParseConfigurationKey(k)
			if err != nil {
				return err
			}
			c, ok, err := recordOf(tx, api.Identity{Name: name})
			if err != nil {
				return err
			}
			if ok && c.Image != images[c.Modules] {
				outdated = append(outdated, api.Identity{Name: name})
			}
		}
		return nil
	})
	return outdated, err
}
