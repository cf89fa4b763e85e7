package triggers

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/internal/kube"
	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// If a hook was writing a section when the ConfigMap was read, the trigger ignores this section, because the end of the
// hook's task puts the section in force. If that task ends without success, the trigger must raise an event for the
// section.
func TestASectionLeftToATaskThatEndsOtherwiseIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, raised := storetest.Memory(t), 0
		raise := func(*store.Tx, ...workflow.Event) error { raised++; return nil }
		c := NewConfigMap(db, raiserFunc(raise), &kube.ConfigMap{}, nil)
		c.last = kube.Content{ResourceVersion: "7", Data: map[string]string{"mod": "p: 1"}, Exists: true}
		left := func() { c.Recorded(store.Record{Node: string(lifecycle.ModuleBeforeHelm), State: store.Failed}) }
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go c.compare(ctx)
		for _, step := range []struct {
			what             string
			version, section string
			left             bool // a task ends without success after the change of the content in force
			want             int
		}{
			{"the ConfigMap is read while a hook writes the section", "7", "p: 0", false, 0},
			{"the hook's task has ended without success", "7", "p: 0", true, 1},
			{"the content was raised already", "7", "p: 0", false, 0},
			{"the section is in force", "7", "p: 1", true, 0},
			{"the content in force was read later", "8", "p: 0", true, 0},
			{"the content in force was read before", "6", "p: 0", false, 1},
		} {
			raised = 0
			inForce(t, db, step.version, map[string]string{"mod": step.section})
			synctest.Wait()
			if step.left {
				left()
				synctest.Wait()
			}
			if raised != step.want {
				t.Errorf("%s: raised %d times, want %d", step.what, raised, step.want)
			}
		}
		inForce(t, db, "7", map[string]string{"mod": "p: 0"})
		raised = 0
		if err := db.Update(func(tx *store.Tx) error { return c.raiseNew(tx, c.last) }); err != nil || raised != 1 {
			t.Errorf("after the task had ended, %d events were raised for the content of the watch, want one: %v", raised, err)
		}
	})
}

// Step 16 reads a new ConfigMap, and puts its content in force later. If the ConfigMap is deleted in between, the
// trigger finds no difference at the deletion, because the content in force is still that from before the creation.
func TestADeletionOfTheConfigMapBeforeItsContentIsInForceIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, raised := storetest.Memory(t), 0
		c := NewConfigMap(db, raiserFunc(func(*store.Tx, ...workflow.Event) error { raised++; return nil }), &kube.ConfigMap{}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go c.compare(ctx)
		for _, step := range []struct {
			what    string
			last    kube.Content
			version string            // of the content in force
			data    map[string]string // in force
			want    int
		}{
			{"the watch has delivered nothing", kube.Content{}, "5", map[string]string{"mod": "p: 1"}, 0},
			{"the ConfigMap was created after the last content from the watch", kube.Content{AbsentAt: "4"}, "5", map[string]string{"mod": "p: 1"}, 0},
			{"the ConfigMap was deleted", kube.Content{AbsentAt: "6"}, "5", map[string]string{"mod": "p: 1"}, 1},
			{"the deletion is in force", kube.Content{AbsentAt: "6"}, "", nil, 0},
			{"the write of a hook that creates it again is in force", kube.Content{AbsentAt: "6"}, "", map[string]string{"mod": "p: 1"}, 0},
		} {
			raised = 0
			c.mu.Lock()
			c.last = step.last
			c.mu.Unlock()
			inForce(t, db, step.version, step.data)
			synctest.Wait()
			if raised != step.want {
				t.Errorf("%s: raised %d times, want %d", step.what, raised, step.want)
			}
		}
	})
}

// inForce stores the data as the content in force.
func inForce(t *testing.T, db *store.DB, version string, data map[string]string) {
	t.Helper()
	config, err := values.ParseConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.AppliedConfigKey(), store.AppliedConfig{ResourceVersion: version, Config: text, At: tx.Now()})
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAFailedReadOfTheConfigMapIsRetriedAndNotDoubled(t *testing.T) {
	t.Parallel()
	db, raised := storetest.Memory(t), 0
	raise := func(*store.Tx, ...workflow.Event) error { raised++; return nil }
	c := NewConfigMap(db, raiserFunc(raise), &kube.ConfigMap{}, nil)
	content := kube.Content{ResourceVersion: "7", Data: map[string]string{"mod": "p: 1"}, Exists: true}
	put := func(change func(*store.Task)) {
		t.Helper()
		if err := db.Update(func(tx *store.Tx) error {
			task := &store.Task{
				ID: store.ID{Epoch: 1, N: 1}, Pos: store.Pos{Queue: workflow.Main, Slot: store.FirstSlot}, Graph: lifecycle.Graph.Name, Run: 1,
				Node: string(lifecycle.ConfigMapChanged),
			}
			change(task)
			return errors.Join(store.SaveTask(tx, task), store.Save(tx, store.RunKey(1), store.Run{ID: 1, Graph: lifecycle.Graph.Name, Began: tx.Now(), Open: 1}),
				store.Save(tx, store.AppliedConfigKey(), store.AppliedConfig{ResourceVersion: "6", Config: json.RawMessage("{}"), At: tx.Now()}))
		}); err != nil {
			t.Fatal(err)
		}
	}
	failed := &store.Failure{Node: string(lifecycle.ConfigMapChanged), Count: 1, Error: "the API server failed"}
	for _, step := range []struct {
		what   string
		change func(*store.Task)
		want   int
	}{
		{"the task waits for its retry and reads the content itself", func(task *store.Task) { task.Failed = failed }, 0},
		{"the task runs again and may have read the content before", func(task *store.Task) { task.Failed, task.Claim = failed, &store.Claim{Epoch: 1} }, 1},
		{"the head of the queue is another step", func(task *store.Task) { task.Node, task.Failed = string(lifecycle.ModuleRun), failed }, 1},
	} {
		put(step.change)
		raised = 0
		if err := db.Update(func(tx *store.Tx) error { return c.raiseNew(tx, content) }); err != nil || raised != step.want {
			t.Errorf("%s: raised %d times, want %d (%v)", step.what, raised, step.want, err)
		}
	}
}

func TestAConfigMapIsReadAgainWhenTheRecordOfAnEarlierOneCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, lost := range []store.Key{store.RefusedConfigKey(), store.AppliedConfigKey()} {
		db, err := store.OpenMemory(new(store.Memory), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		raised := 0
		c := NewConfigMap(db, raiserFunc(func(*store.Tx, ...workflow.Event) error { raised++; return nil }), &kube.ConfigMap{}, nil)
		if err := db.Update(func(tx *store.Tx) error {
			tx.Put(lost, []byte(`{"resourceVersion":`))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.Update(func(tx *store.Tx) error {
			return c.raiseNew(tx, kube.Content{ResourceVersion: "8", Exists: true})
		}); err != nil || raised != 1 {
			t.Errorf("the record %s cannot be read: raised %d times, %v", lost, raised, err)
		}
	}
}

func TestAChangeOfTheConfigMapOnAFullDiskIsRaisedWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(store.Memory)
		db, err := store.OpenMemory(m, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		raised := store.At(store.Metrics).Str("raised")
		c := NewConfigMap(db, raiserFunc(func(tx *store.Tx, _ ...workflow.Event) error {
			tx.Put(raised, []byte("1"))
			return nil
		}), &kube.ConfigMap{}, nil)
		c.last = kube.Content{ResourceVersion: "7", Data: map[string]string{"mod": "p: 1"}, Exists: true}
		if err := db.Update(func(tx *store.Tx) error {
			return store.Save(tx, store.AppliedConfigKey(), store.AppliedConfig{ResourceVersion: "6", Config: []byte(`{}`), At: tx.Now()})
		}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		fullFor(m, time.Minute)
		go c.compare(ctx) // compares at once, because the content in force has just changed
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if err := db.View(func(tx *store.Tx) error {
			if tx.Get(raised) == nil {
				t.Error("the change was dropped")
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		cancel()
		synctest.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAFailedReadOfTheConfigMapRequestsNoFurtherRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, raised := storetest.Memory(t), 0
		c := NewConfigMap(db, raiserFunc(func(*store.Tx, ...workflow.Event) error { raised++; return nil }), &kube.ConfigMap{}, nil)
		c.last = kube.Content{ResourceVersion: "7", Data: map[string]string{"mod": "p: 1"}, Exists: true}
		if err := db.Update(func(tx *store.Tx) error {
			return store.Save(tx, store.AppliedConfigKey(), store.AppliedConfig{ResourceVersion: "6", Config: []byte(`{}`), At: tx.Now()})
		}); err != nil {
			t.Fatal(err)
		}
		<-c.applied // so that only the following calls of Recorded cause a comparison
		ctx, cancel := context.WithCancel(t.Context())
		go c.compare(ctx)
		for _, step := range []struct {
			node  graph.NodeID
			state store.State
			want  int
		}{
			{lifecycle.ConfigMapChanged, store.Failed, 0},
			{lifecycle.ModuleBeforeHelm, store.Done, 0},
			{lifecycle.ModuleBeforeHelm, store.Failed, 1},
			{lifecycle.ConfigMapChanged, store.Skipped, 2},
		} {
			c.Recorded(store.Record{Node: string(step.node), State: step.state})
			synctest.Wait()
			if raised != step.want {
				t.Errorf("after %s of %s, %d events were raised, want %d", step.state, step.node, raised, step.want)
			}
		}
		cancel()
		synctest.Wait()
	})
}

func TestARejectionOfTheConfigMapCausesNoComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, raised := storetest.Memory(t), 0
		c := NewConfigMap(db, raiserFunc(func(*store.Tx, ...workflow.Event) error { raised++; return nil }), &kube.ConfigMap{}, nil)
		c.last = kube.Content{ResourceVersion: "8", Data: map[string]string{"mod": "p: 1"}, Exists: true}
		if err := db.Update(func(tx *store.Tx) error {
			return store.Save(tx, store.AppliedConfigKey(), store.AppliedConfig{ResourceVersion: "7", Config: []byte(`{}`), At: tx.Now()})
		}); err != nil {
			t.Fatal(err)
		}
		<-c.applied // so that only the rejection can cause a comparison
		ctx, cancel := context.WithCancel(t.Context())
		go c.compare(ctx)
		if err := db.Update(func(tx *store.Tx) error {
			return store.Save(tx, store.RefusedConfigKey(), store.RefusedConfig{ResourceVersion: "9", Error: "invalid"})
		}); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); raised != 0 {
			t.Errorf("step 16 has rejected newer content than the watch has delivered, and %d events were raised", raised)
		}
		cancel()
		synctest.Wait()
	})
}

func TestContentOfTheConfigMapIsNewIfItIsNeitherInForceNorRejected(t *testing.T) {
	t.Parallel()
	data := map[string]string{"mod": "size: 1"}
	for name, c := range map[string]struct {
		inForce map[string]string // nil if no content is in force yet
		refused string            // the refused version
		version string
		data    map[string]string
		want    bool
	}{
		"before the start has read any":          {nil, "", "7", data, false},
		"the content in force":                   {data, "", "7", data, false},
		"in other spelling, with another label":  {data, "", "8", map[string]string{"mod": "{\"size\": 1}"}, false},
		"another section":                        {data, "", "8", map[string]string{"mod": "size: 2"}, true},
		"another flag":                           {data, "", "8", map[string]string{"mod": "size: 1", "modEnabled": "false"}, true},
		"the ConfigMap is deleted":               {data, "", "", nil, true},
		"an empty ConfigMap is deleted":          {map[string]string{}, "", "", nil, false},
		"invalid content":                        {data, "", "8", map[string]string{"modEnabled": "perhaps"}, true},
		"the rejected content":                   {data, "8", "8", map[string]string{"modEnabled": "perhaps"}, false},
		"other invalid content":                  {data, "8", "9", map[string]string{"modEnabled": "never"}, true},
		"the content in force, after rejected":   {data, "8", "9", data, true},
		"rejected content before the first read": {nil, "8", "8", data, false},
	} {
		db := storetest.Memory(t)
		if err := db.Update(func(tx *store.Tx) error {
			if c.refused != "" {
				if err := store.Save(tx, store.RefusedConfigKey(), store.RefusedConfig{ResourceVersion: c.refused}); err != nil {
					return err
				}
			}
			if c.inForce != nil {
				config, err := values.ParseConfig(c.inForce)
				if err != nil {
					return err
				}
				text, err := json.Marshal(config)
				if err != nil {
					return err
				}
				if err := store.Save(tx, store.AppliedConfigKey(), store.AppliedConfig{ResourceVersion: "7", Config: text, At: tx.Now()}); err != nil {
					return err
				}
			}
			got, err := isNew(tx, kube.Content{ResourceVersion: c.version, Data: c.data, Exists: c.version != ""})
			if got != c.want {
				t.Errorf("%s: new %t", name, got)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
