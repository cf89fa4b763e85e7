package inspect_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

func TestWhyOfAModuleNamesTheEnabledScriptThatKeepsAllModulesWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web", "shop")
		w.start(onStart)
		sleep(time.Minute)
		on := store.Module{State: store.On, Enabled: true, RanIn: 1, RanAt: time.Now()}
		w.save(map[string]store.Module{"web": on, "shop": on})
		slow := inspect.Reader{Live: true, Slow: []inspect.Problem{{
			Kind: inspect.KindSlow, Run: 1, Node: string(lifecycle.DiscoverModules), Subject: graph.Subject{Module: "web", Hook: "enabled"},
			At: time.Now(), Error: "no converge installs, upgrades or deletes a module until it ends",
		}}}
		for _, module := range []string{"web", "shop"} {
			why, err := w.explain(slow, module)
			if err != nil {
				t.Fatal(err)
			}
			l := layout
			l.Width, l.Now = inspect.Unlimited, why.At
			page := inspect.WhyText(why, l)
			for _, want := range []string{
				"Why does nothing run for module " + module + "?",
				"the enabled script of module web runs unusually long: no converge installs, upgrades or deletes a module until it ends",
			} {
				if !strings.Contains(page, want) {
					t.Errorf("the explanation lacks %q:\n%s", want, page)
				}
			}
		}
	})
}
