package triggers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"

	"addon-operator/internal/kube"
	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// A ConfigMap raises an event when the operator's ConfigMap has new content, or when other content replaces refused
// content. New content is content that is not in force and was not refused. Step 16 reads the ConfigMap again when it
// runs.
type ConfigMap struct {
	db     *store.DB
	engine workflow.Raiser
	source *kube.ConfigMap
	retry  func(store.ID) error // retries a failed task at once
	// Seen is called with each content that the watch delivers. Seen must be set before Run, and
	// can be nil.
	Seen func(kube.Content)
	// Raised is called with each content that the watch delivers. If an event is raised for the content,
	// Raised is called after the event is committed. Raised must be set before Run, and can be nil.
	Raised func(kube.Content)

	applied <-chan struct{} // receives a value when the content in force may have changed
	ended   chan struct{}   // receives a value when a task or an attempt has ended without success
	mu      sync.Mutex
	last    kube.Content // last content from the watch; guarded by mu
	left    bool         // the content in force may lack a section of the last content; guarded by mu
}

// NewConfigMap returns a ConfigMap that raises events once Run is called.
func NewConfigMap(db *store.DB, engine workflow.Raiser, source *kube.ConfigMap, retry func(store.ID) error) *ConfigMap {
	return &ConfigMap{db: db, engine: engine, source: source, retry: retry, ended: make(chan struct{}, 1), applied: store.Changes(db, store.AppliedConfigKey())}
}

// Recorded makes the trigger compare the content again if the record r says that a task or an attempt has ended without
// success. The hook of the task may have written a section of the ConfigMap, but only the success of the task puts the
// section in force. A failed attempt of step 16 causes no comparison, because its retry reads the ConfigMap again, and
// another task would fail, too. Recorded does not block.
func (c *ConfigMap) Recorded(r store.Record) {
	switch {
	case r.State == store.Done, r.State == store.Joined:
		return
	case r.State == store.Failed && r.Node == string(lifecycle.ConfigMapChanged):
		return
	}
	c.mu.Lock()
	c.left = true
	c.mu.Unlock()
	select {
	case c.ended <- struct{}{}:
	default:
	}
}

// Run watches the ConfigMap, and raises events for new content, until ctx is done.
func (c *ConfigMap) Run(ctx context.Context, observer kube.Observer) error {
	var running sync.WaitGroup
	running.Go(func() { c.compare(ctx) })
	defer running.Wait()
	err := c.source.Watch(ctx, observer, func(ctx context.Context, content kube.Content) error {
		c.mu.Lock()
		c.last = content
		c.mu.Unlock()
		if c.Seen != nil {
			c.Seen(content)
		}
		if err := c.db.UpdateWithRoom(ctx, func(tx *store.Tx) error { return c.raiseNew(tx, content) }); err != nil {
			return err
		}
		if c.Raised != nil {
			c.Raised(content)
		}
		return c.db.WithRoom(ctx, c.wake)
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// compare compares the last content from the watch with the content in force: after each change of the content in
// force, and after each task or attempt that ended without success, except failed attempts of step 16. It returns when
// ctx is done.
func (c *ConfigMap) compare(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.applied:
		case <-c.ended:
		}
		c.mu.Lock()
		last, left := c.last, c.left
		c.left = false
		c.mu.Unlock()
		// The error needs no report, because a failed store ends the operator.
		_ = c.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
			record, _, err := store.Load[store.AppliedConfig](tx, store.AppliedConfigKey())
			version := cmp.Or(last.ResourceVersion, last.AbsentAt)
			same := last.ResourceVersion == record.ResourceVersion // true also if no ConfigMap exists: both versions are empty
			newer := !same && kube.After(version, record.ResourceVersion) || left && same
			if err != nil || version == "" || !newer {
				return err // there is no content from the watch, or its content is not newer than the content in force
			}
			return c.raiseNew(tx, last)
		})
	}
}

// wake retries step 16 at once if its last attempt failed, for example because the ConfigMap was
// invalid or unreachable. wake is called after the watch has delivered content.
func (c *ConfigMap) wake() error {
	var failed *store.Task
	if err := c.db.View(func(tx *store.Tx) (err error) {
		failed, err = failedStep(tx)
		return err
	}); err != nil || failed == nil {
		return err
	}
	err := c.retry(failed.ID)
	if errors.Is(err, workflow.ErrNoTask) || errors.Is(err, workflow.ErrRuns) {
		return nil // the task is running or has ended
	}
	return err
}

// failedStep returns the task of step 16 that failed and is retried; nil if there is none.
func failedStep(tx *store.Tx) (*store.Task, error) {
	head, ok, err := store.Head(tx, workflow.Main)
	if err != nil || !ok || head.Node != string(lifecycle.ConfigMapChanged) || head.Failed == nil {
		return nil, err
	}
	return head, nil
}

// raiseNew raises an event for new content. If a task of step 16 waits for its retry, raiseNew raises no event, because
// the retry reads the content.
func (c *ConfigMap) raiseNew(tx *store.Tx, content kube.Content) error {
	changed, err := isNew(tx, content)
	if err != nil || !changed {
		return err
	}
	if failed, err := failedStep(tx); err != nil || failed != nil && failed.Claim == nil {
		return err
	}
	return c.engine.Raise(tx, workflow.Event{
		On:    lifecycle.OnConfigMap,
		Cause: store.Cause{Object: c.source.String(), ResourceVersion: content.ResourceVersion, Event: string(kube.Modified), Manager: content.Manager},
	})
}

// isNew reports whether step 16 must read content. This is so if the content is not in force and was not refused. While
// there is a record of refused content, the content in force is new, too, because step 16 must delete this record.
// Before any content is in force, isNew returns false, because the start reads the ConfigMap. If the record of the
// content in force or of the refused content cannot be read, all content is new: step 16 replaces the record.
func isNew(tx *store.Tx, content kube.Content) (bool, error) {
	refused, isRefused, err := store.Load[store.RefusedConfig](tx, store.RefusedConfigKey())
	if errors.As(err, new(*store.RecordError)) {
		return true, nil
	}
	if err != nil || isRefused && refused.ResourceVersion == content.ResourceVersion {
		return false, err
	}
	record, ok, err := store.Load[store.AppliedConfig](tx, store.AppliedConfigKey())
	if errors.As(err, new(*store.RecordError)) {
		return true, nil
	}
	if err != nil || !ok {
		return false, err
	}
	now, err := values.ParseConfig(content.Data)
	if err != nil {
		return true, nil //nolint:nilerr // step 16 reports the error
	}
	var inForce values.Config
	if err := json.Unmarshal(record.Config, &inForce); err != nil {
		return false, err
	}
	d, err := inForce.Diff(now)
	return isRefused || d.Global || len(d.Flags)+len(d.Modules) > 0, err
}
