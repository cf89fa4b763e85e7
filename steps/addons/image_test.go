package addons

import (
	"errors"
	"strings"
	"testing"

	"addon-operator/internal/api"
	"addon-operator/steps/addons/failure"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

// mark stores that a configuration has the annotation for modules, so that its addons can be used as modules.
func mark(t *testing.T, db *store.DB, name string) {
	t.Helper()
	if err := db.Update(func(tx *store.Tx) error {
		return registry.ProvideModules(tx, registry.Cluster, name, true, "")
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAddonWithTheNameOfAModuleOfTheImageIsRefusedAsLongAsThatExists(t *testing.T) {
	t.Parallel()
	image := map[string]string{"redis": "/modules/010-redis", "web": "/modules/020-web"}
	r := &Runtime{DB: storetest.Memory(t), ImageModules: func() (map[string]string, error) { return image, nil }}

	offer(t, r.DB, "redis")
	check(t, r, "redis")
	if _, phase, _ := register(t, r, "redis"); phase != store.PhaseReady {
		t.Errorf("a configuration that provides no modules is %s", phase)
	}

	offer(t, r.DB, "redis")
	mark(t, r.DB, "redis")
	check(t, r, "redis")
	facts, phase, reason := register(t, r, "redis")
	if phase != store.PhaseFailed || api.Reason(reason) != api.ConflictWithAlreadyRegisteredAddon || len(facts) != 1 {
		t.Fatalf("it is %s with reason %q and facts %v; want a conflict and a freed ID", phase, reason, facts)
	}
	_, results, err := r.results(api.Identity{Name: "redis"})
	want := "An addon with the same ID is already registered: [ConfigurationName: modules-dir, url: /modules/010-redis, addons: redis]"
	if err != nil || results[0].Addons[0].Message != want {
		t.Errorf("message %q, %v", results[0].Addons[0].Message, err)
	}
	if failure.ImageModules(image).Changes(results) {
		t.Error("the failed configuration is processed again while nothing has changed")
	}
	delete(image, "redis")
	if !failure.ImageModules(image).Changes(results) {
		t.Error("the failed configuration is not processed again when the module of the image is gone")
	}

	offer(t, r.DB, "redis")
	mark(t, r.DB, "redis")
	check(t, r, "redis")
	if _, phase, reason := register(t, r, "redis"); phase != store.PhaseReady {
		t.Errorf("without the module in the image, it is %s: %s", phase, reason)
	}
	if _, results, err = r.results(api.Identity{Name: "redis"}); err != nil || failure.ImageModules(image).Changes(results) {
		t.Errorf("the ready configuration is processed again while nothing has changed: %v", err)
	}
	image["redis"] = "/modules/redis"
	if !failure.ImageModules(image).Changes(results) {
		t.Error("the ready configuration is not processed again when the image gets a module of that name")
	}
}

func TestModuleThatTheImageGetsBeforeAddonsAreRegisteredIsFound(t *testing.T) {
	t.Parallel()
	image := map[string]string{}
	r := &Runtime{DB: storetest.Memory(t), AllAsModules: true, ImageModules: func() (map[string]string, error) { return image, nil }}
	offer(t, r.DB, "redis")
	check(t, r, "redis")
	image["redis"] = "/modules/redis"
	if _, phase, reason := register(t, r, "redis"); phase != store.PhaseFailed || api.Reason(reason) != api.ConflictWithAlreadyRegisteredAddon {
		t.Errorf("it is %s with reason %q", phase, reason)
	}
}

func TestAddonsAreNotRegisteredWhileTheModulesOfTheImageAreUnknown(t *testing.T) {
	t.Parallel()
	r := &Runtime{DB: storetest.Memory(t), AllAsModules: true}
	offer(t, r.DB, "redis")
	check(t, r, "redis")
	r.ImageModules = func() (map[string]string, error) { return nil, errors.New("modules directory cannot be read") }
	if _, err := (&registerStep{r}).Do(t.Context(), taskOf("redis")); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("error %v", err)
	}
}
