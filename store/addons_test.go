package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/store"
	"addon-operator/store/storetest"
)

// saveChunks saves data in chunks under prefix.
func saveChunks(tx *store.Tx, prefix store.Key, data []byte) {
	for i := 0; store.SaveChunk(tx, prefix, data, i); i++ {
	}
}

func TestChunksHaveTheDataThatWasSaved(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, store.ChunkSize - 1, store.ChunkSize, store.ChunkSize + 1, 3 * store.ChunkSize} {
		db := inMemory(t)
		data := bytes.Repeat([]byte{0, 1, '{', 0xff, 'x'}, size/5+1)[:size]
		update(t, db, func(tx *store.Tx) error {
			saveChunks(tx, store.ContentChunks("sha256:a"), data)
			saveChunks(tx, store.ContentChunks("sha256:b"), []byte("other content"))
			saveChunks(tx, store.ChartChunks("sha256:a"), []byte("a chart"))
			return nil
		})
		view(t, db, func(tx *store.Tx) error {
			got, err := store.LoadChunks(tx, store.ContentChunks("sha256:a"), size)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back as %d, %v", size, len(got), err)
			}
			n := 0
			for range tx.Range(store.ContentChunks("sha256:a")) {
				n++
			}
			if want := max(1, (size+store.ChunkSize-1)/store.ChunkSize); n != want {
				t.Errorf("%d bytes are stored in %d chunks, want %d", size, n, want)
			}
			return nil
		})
	}
}

func TestChunksOfAnotherSizeThanTheRecordAreUnreadable(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	prefix := store.ChartChunks("sha256:a")
	update(t, db, func(tx *store.Tx) error {
		saveChunks(tx, prefix, make([]byte, store.ChunkSize+100))
		return nil
	})
	load := func(size int) error {
		return db.View(func(tx *store.Tx) error {
			_, err := store.LoadChunks(tx, prefix, size)
			return err
		})
	}
	want := "record chunks/chart/sha256:a cannot be read: its chunks do not have the size of its record"
	for _, size := range []int{0, store.ChunkSize + 99, store.ChunkSize + 101} {
		if err := load(size); !errors.As(err, new(*store.RecordError)) || err.Error() != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	update(t, db, func(tx *store.Tx) error { tx.Delete(prefix.Uint(0)); return nil })
	if err := load(store.ChunkSize + 100); err == nil || err.Error() != want {
		t.Errorf("without the first chunk: %v", err)
	}
}

func TestKeysOfConfigurationsAndAddonsReturnTheirNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		namespace, name := rapid.String().Draw(t, "namespace"), rapid.String().Draw(t, "name")
		for kind, of := range map[string]struct {
			key, prefix store.Key
			parse       func(store.Key) (string, string, error)
		}{
			"configuration": {store.ConfigurationKey(namespace, name), store.ConfigurationsOf(namespace), store.ParseConfigurationKey},
			"addon":         {store.AddonKey(namespace, name), store.AddonsOf(namespace), store.ParseAddonKey},
		} {
			ns, n, err := of.parse(of.key)
			if err != nil || ns != namespace || n != name {
				t.Fatalf("%s %q of %q is read as %q of %q, %v", kind, name, namespace, n, ns, err)
			}
			if !bytes.HasPrefix(of.key, of.prefix) {
				t.Fatalf("%s %q is not among those of %q", kind, name, namespace)
			}
			if _, _, err := of.parse(of.prefix); err == nil {
				t.Fatalf("the prefix of %q is read as a %s", namespace, kind)
			}
		}
	})
	if _, _, err := store.ParseConfigurationKey(nil); err == nil {
		t.Error("an empty key is read as a configuration")
	}
}

func TestADroppedHolderHasAnotherMarkThanALiveOne(t *testing.T) {
	t.Parallel()
	round, module := store.RoundHolder(store.ID{Epoch: 1, N: 2}), store.ModuleHolder("1-2")
	for want, k := range map[string]store.Key{
		"holders/live/round 1-2":     store.HolderKey(round, false),
		"holders/dropped/round 1-2":  store.HolderKey(round, true),
		"holders/live/module 1-2":    store.HolderKey(module, false),
		"holders/dropped/module 1-2": store.HolderKey(module, true),
		"holds/round 1-2/sha256:a":   store.HoldKey(round, "sha256:a"),
		"holds/module 1-2/sha256:a":  store.HoldKey(module, "sha256:a"),
	} {
		if got := k.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for dropped, k := range map[bool]store.Key{true: store.HolderKey(round, true), false: store.HolderKey(round, false)} {
		if got := bytes.HasPrefix(k, store.DroppedHolders()); got != dropped {
			t.Errorf("%s is among the dropped holders: %t", k, got)
		}
	}
}

func TestModulesMadeFromAddonsAreFoundByName(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	want := map[string]store.AddonModule{"redis": {Content: "sha256:a", Used: true}, "": {}, "testing": {Content: "sha256:b"}}
	update(t, db, func(tx *store.Tx) (err error) {
		for name, m := range want {
			err = errors.Join(err, store.Save(tx, store.AddonModuleKey(name), m))
		}
		return err
	})
	view(t, db, func(tx *store.Tx) error {
		got, err := store.LoadAddonModules(tx)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		return nil
	})
	update(t, db, func(tx *store.Tx) error { tx.Put(store.AddonModuleKey("redis"), []byte("[]")); return nil })
	view(t, db, func(tx *store.Tx) error {
		got, err := store.LoadAddonModules(tx)
		delete(want, "redis")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("with an unreadable record: %v (-want +got):\n%s", err, diff)
		}
		return nil
	})
}

// The registered addon of the tests of Check, and its configuration.
var (
	firstRound = store.ID{Epoch: 1, N: 1}
	nextRound  = store.ID{Epoch: 1, N: 2}
	ready      = store.Configuration{UID: "u", Round: firstRound, Registered: firstRound, Phase: store.PhaseReady}
	redis      = store.RegisteredAddon{Name: "redis", Version: "v1.0.0", Normal: "1.0.0", Configuration: "addons", Content: "content"}
)

// saveRegistered saves the configuration team/addons, whose registered addon redis holds a content with
// a chart.
func saveRegistered(tx *store.Tx) error {
	holder := store.RoundHolder(firstRound)
	saveChunks(tx, store.ContentChunks("content"), []byte("the content"))
	saveChunks(tx, store.ChartChunks("chart"), []byte("a chart"))
	return errors.Join(
		store.Save(tx, store.ConfigurationKey("team", "addons"), ready),
		store.Save(tx, store.ResultKey(firstRound, 0), store.RepositoryResult{
			URL: "https://example.com", Addons: []store.AddonResult{{ID: "id", Name: "redis", Version: "v1.0.0", Content: "content"}},
		}),
		store.Save(tx, store.AddonKey("team", "id"), redis),
		store.Save(tx, store.AddonNameKey("team", "redis", "1.0.0"), "id"),
		store.Save(tx, store.HolderKey(holder, false), true), store.Save(tx, store.HoldKey(holder, "content"), true),
		store.Save(tx, store.ContentKey("content"), store.Content{Refs: 1, Complete: true, Chart: "chart", Size: 11}),
		store.Save(tx, store.ChartKey("chart"), store.Chart{Refs: 1, Complete: true, Size: 7}),
	)
}

func TestRegisteredAddonsWithTheirContentsAreSound(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t) // checked at the end
	update(t, db, saveRegistered)
	update(t, db, func(tx *store.Tx) error {
		// Save the records of a configuration whose next round is running: the first content of this round is not
		// complete.
		later := ready
		later.Round, later.Phase = nextRound, store.PhasePending
		holder := store.RoundHolder(nextRound)
		saveChunks(tx, store.ContentChunks("next"), []byte("a part"))
		saveChunks(tx, store.ChartChunks("next"), []byte("a part"))
		return errors.Join(store.Save(tx, store.ConfigurationKey("team", "addons"), later),
			store.Save(tx, store.HolderKey(holder, false), true), store.Save(tx, store.HoldKey(holder, "next"), true),
			store.Save(tx, store.ContentKey("next"), store.Content{Refs: 1, Chart: "next", Size: 1000}),
			store.Save(tx, store.ChartKey("next"), store.Chart{Refs: 1, Size: 1000}))
	})
	update(t, db, func(tx *store.Tx) error {
		// Save the records of a dropped round: its results still exist, but its content is already deleted.
		dropped := store.ID{Epoch: 1, N: 3}
		return errors.Join(store.Save(tx, store.HolderKey(store.RoundHolder(dropped), true), true),
			store.Save(tx, store.ResultKey(dropped, 0), store.RepositoryResult{Addons: []store.AddonResult{{ID: "old", Content: "released"}}}))
	})
}

func TestCheckFindsWhatIsWrongWithAddons(t *testing.T) {
	t.Parallel()
	holder := store.RoundHolder(firstRound)
	save := func(tx *store.Tx, c store.Configuration) error {
		return store.Save(tx, store.ConfigurationKey("team", "addons"), c)
	}
	remove := func(k store.Key) func(*store.Tx) error {
		return func(tx *store.Tx) error { tx.Delete(k); return nil }
	}
	spoil := func(k store.Key) func(*store.Tx) error {
		return func(tx *store.Tx) error { tx.Put(k, []byte("7")); return nil }
	}
	for want, damage := range map[string]func(*store.Tx) error{
		"configuration configurations/team/addons refers to round 1-1, which is not live": remove(store.HolderKey(holder, false)),
		"configuration configurations/team/addons refers to round 1-2, which is not live": func(tx *store.Tx) error {
			c := ready
			c.Round, c.Phase = nextRound, store.PhasePending
			return save(tx, c)
		},
		"configuration configurations/team/addons is Ready and keeps the earlier round 1-2": func(tx *store.Tx) error {
			c := ready
			c.Earlier = nextRound
			return errors.Join(save(tx, c), store.Save(tx, store.HolderKey(store.RoundHolder(nextRound), false), true))
		},
		"configuration configurations/team/addons is Failed and owns the addons of round 1-1, its latest is 1-1": func(tx *store.Tx) error {
			c := ready
			c.Phase = store.PhaseFailed
			return save(tx, c)
		},
		"configuration configurations/team/addons is Ready and owns the addons of round 1-1, its latest is 1-2": func(tx *store.Tx) error {
			c := ready
			c.Round = nextRound
			return errors.Join(save(tx, c), store.Save(tx, store.HolderKey(store.RoundHolder(nextRound), false), true))
		},
		"record configurations/team/addons cannot be read": spoil(store.ConfigurationKey("team", "addons")),
		"record rounds/1/1/0 cannot be read":               spoil(store.ResultKey(firstRound, 0)),
		"rounds/1/7/0 belongs to no configuration": func(tx *store.Tx) error {
			return store.Save(tx, store.ResultKey(store.ID{Epoch: 1, N: 7}, 0), store.RepositoryResult{})
		},
		"rounds/1/1/0 names content content, which its round does not hold": remove(store.HoldKey(holder, "content")),
		"record addons/team/id cannot be read":                              spoil(store.AddonKey("team", "id")),
		`addons/team/id belongs to configuration "other", which does not list it`: func(tx *store.Tx) error {
			a := redis
			a.Configuration = "other"
			return store.Save(tx, store.AddonKey("team", "id"), a)
		},
		`addons/other/id belongs to configuration "addons", which does not list it`: func(tx *store.Tx) error {
			return store.Save(tx, store.AddonKey("other", "id"), redis)
		},
		`configuration "addons" lists addons/team/id, which is not registered`: remove(store.AddonKey("team", "id")),
		`the name and version of addons/team/id lead to ""`:                    remove(store.AddonNameKey("team", "redis", "1.0.0")),
		`the name and version of addons/team/id lead to "x"`: func(tx *store.Tx) error {
			return store.Save(tx, store.AddonNameKey("team", "redis", "1.0.0"), "x")
		},
		`addon-names/team/redis/2.0.0 leads to addon "id", which is not registered under this name and version`: func(tx *store.Tx) error {
			return store.Save(tx, store.AddonNameKey("team", "redis", "2.0.0"), "id")
		},
		`addon-names/team/mysql/1.0.0 leads to addon "id", which is not registered under this name and version`: func(tx *store.Tx) error {
			return store.Save(tx, store.AddonNameKey("team", "mysql", "1.0.0"), "id")
		},
		`addon-names/other/redis/1.0.0 leads to addon "id", which is not registered under this name and version`: func(tx *store.Tx) error {
			return store.Save(tx, store.AddonNameKey("other", "redis", "1.0.0"), "id")
		},
		"the content content of addons/team/id is missing or not complete": func(tx *store.Tx) error {
			return store.Save(tx, store.ContentKey("content"), store.Content{Refs: 1, Chart: "chart", Size: 11})
		},
		"holds/module redis/content is a reference of a holder that does not exist": func(tx *store.Tx) error {
			return store.Save(tx, store.HoldKey(store.ModuleHolder("redis"), "content"), true)
		},
		"contents/content counts 1 holders, has 2": func(tx *store.Tx) error {
			module := store.ModuleHolder("redis")
			return errors.Join(store.Save(tx, store.HolderKey(module, false), true), store.Save(tx, store.HoldKey(module, "content"), true))
		},
		"contents/unused counts 0 holders, has 0":    func(tx *store.Tx) error { return store.Save(tx, store.ContentKey("unused"), store.Content{}) },
		"content content is held and does not exist": remove(store.ContentKey("content")),
		"record contents/content cannot be read":     spoil(store.ContentKey("content")),
		"contents/content is complete, its chart chart is not": func(tx *store.Tx) error {
			return store.Save(tx, store.ChartKey("chart"), store.Chart{Refs: 1, Size: 7})
		},
		"charts/chart counts 2 contents, has 1": func(tx *store.Tx) error {
			return store.Save(tx, store.ChartKey("chart"), store.Chart{Refs: 2, Complete: true, Size: 7})
		},
		"charts/unused counts 0 contents, has 0":                    func(tx *store.Tx) error { return store.Save(tx, store.ChartKey("unused"), store.Chart{}) },
		"chart chart is used and does not exist":                    remove(store.ChartKey("chart")),
		"record charts/chart cannot be read":                        spoil(store.ChartKey("chart")),
		"chunks/content/other/0 belongs to no content and no chart": func(tx *store.Tx) error { saveChunks(tx, store.ContentChunks("other"), nil); return nil },
		"chunks/content/content has 0 bytes, its record says 11":    remove(store.ContentChunks("content").Uint(0)),
		"chunks/chart/chart has 8 bytes, its record says 7": func(tx *store.Tx) error {
			saveChunks(tx, store.ChartChunks("chart"), []byte("a chart!"))
			return nil
		},
	} {
		db := inMemory(t)
		update(t, db, func(tx *store.Tx) error { return errors.Join(saveRegistered(tx), damage(tx)) })
		checkFinds(t, db, want)
	}
}

func TestCheckGoesOnAfterUnreadableRecordsOfAddons(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	update(t, db, func(tx *store.Tx) error {
		for _, k := range []store.Key{
			store.ConfigurationKey("", "first"), store.ResultKey(store.ID{}, 0), store.AddonKey("", "first"), store.ContentKey("a first"), store.ChartKey("a first"),
		} {
			tx.Put(k, []byte("7"))
		}
		failed := ready
		failed.Phase = store.PhaseFailed
		wrong := redis
		wrong.Configuration = "other"
		return errors.Join(saveRegistered(tx), store.Save(tx, store.ConfigurationKey("team", "addons"), failed), store.Save(tx, store.AddonKey("team", "id"), wrong),
			store.Save(tx, store.ResultKey(store.ID{Epoch: 9, N: 9}, 0), store.RepositoryResult{}), store.Save(tx, store.ContentKey("unused"), store.Content{}),
			store.Save(tx, store.ChartKey("unused"), store.Chart{}))
	})
	for _, want := range []string{
		"record configurations//first cannot be read", "configuration configurations/team/addons is Failed", "rounds/9/9/0 belongs to no configuration",
		`addons/team/id belongs to configuration "other"`, "contents/unused counts 0 holders", "charts/unused counts 0 contents",
	} {
		checkFinds(t, db, want)
	}
}

func TestCheckListsALimitedNumberOfFindingsAboutAddons(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	update(t, db, func(tx *store.Tx) (err error) {
		for i := range 100 {
			err = errors.Join(err, store.Save(tx, store.ChartKey(fmt.Sprint(i)), store.Chart{}))
		}
		return err
	})
	if err := db.Check(); err == nil || strings.Count(err.Error(), "counts 0 contents, has 0") != 20 {
		t.Error(err)
	}
}

func TestResultsOfARoundAreInTheOrderOfItsRepositories(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	want := map[string]bool{}
	update(t, db, func(tx *store.Tx) (err error) {
		for i := range 300 {
			err = errors.Join(err, store.Save(tx, store.ResultKey(firstRound, i), store.RepositoryResult{URL: fmt.Sprintf("%03d", i)}))
			want[fmt.Sprintf("%03d", i)] = true
		}
		return errors.Join(err, store.Save(tx, store.ResultKey(nextRound, 0), store.RepositoryResult{URL: "of the next round"}))
	})
	view(t, db, func(tx *store.Tx) error {
		last := ""
		for k := range tx.Range(store.ResultsOf(firstRound)) {
			r, _, err := store.Load[store.RepositoryResult](tx, k)
			if err != nil || r.URL <= last || !want[r.URL] {
				t.Errorf("%q after %q: %v", r.URL, last, err)
			}
			last = r.URL
			delete(want, r.URL)
		}
		return nil
	})
	for url := range want {
		t.Errorf("the result for repository %s is missing", url)
	}
}
