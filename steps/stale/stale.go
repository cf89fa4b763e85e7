package stale

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/steps/desired"
	"addon-operator/steps/oncelog"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// An askedHook is a hook that has webhook bindings in the store.
type askedHook struct {
	store.Hook
	module, name string
	bindings     map[string]store.Binding // by id
}

// A Binding is a webhook binding in the store that its hook no longer has. The next run of the hook's module removes
// the binding. But until then the API server can deny requests of modules that run earlier, because of the binding's
// admission webhook. As long as these modules fail, the run of the hook's module does not start, except with
// --on-module-failure=continue.
//
// A conversion binding is removed ahead of this run only in two cases: together with the attachment of the bindings
// that replace it, or in a start if no hook converts the objects; see [Conversions]. In other cases, the API server
// would return objects that no hook has converted.
type Binding struct {
	Subject graph.Subject `json:"subject"`
	// Owner is a checksum of the code and configuration of the hook, as the store has recorded them with the binding.
	Owner string `json:"of"`
}

// Hooks asks hooks for their configurations.
type Hooks interface {
	// AskOnce returns the configuration of the hook. It runs the hook with --config, if the hook has not answered in
	// this process yet with the same digest of its code.
	AskOnce(ctx context.Context, module string, f hook.File, digest string) (store.Hook, error)
}

// atOnce is the maximum number of hooks that are run with --config in parallel.
const atOnce = 4

// Bindings finds and removes stale bindings. It removes a binding only if the current configuration of its hook is
// known and does not contain the binding.
type Bindings struct {
	db      *store.DB
	log     *oncelog.Logger
	modules *desired.Modules
	hooks   Hooks
}

// New returns Bindings that finds the stale bindings in db, for hooks of modules and for global hooks.
func New(db *store.DB, log *oncelog.Logger, modules *desired.Modules, configs Hooks) *Bindings {
	return &Bindings{db: db, log: log, modules: modules, hooks: configs}
}

// WithdrawStale removes the webhooks of admission bindings that their hooks no longer have. It must be called once,
// before the webhook servers start. If the current configuration of a hook is not known, its webhooks stay.
func (b *Bindings) WithdrawStale(ctx context.Context) error {
	found, err := b.Find(ctx)
	if err != nil || len(found) == 0 {
		return err
	}
	return b.db.UpdateWithRoom(ctx, func(tx *store.Tx) error { return b.Withdraw(tx, found) })
}

// Find returns the stale admission bindings. It runs each hook that has admission bindings with the argument --config,
// unless the hook has already answered in this process.
func (b *Bindings) Find(ctx context.Context) (found []Binding, err error) {
	err = b.find(ctx, func(stale Binding, _ store.Binding) error {
		found = append(found, stale)
		return nil
	}, store.Validating, store.Mutating)
	return found, err
}

// find passes every stale binding of the given kinds, with its record, to the function each.
func (b *Bindings) find(ctx context.Context, each func(Binding, store.Binding) error, kinds ...store.BindingKind) error {
	asked, err := b.askedHooks(kinds)
	if err != nil {
		return err
	}
	now := make([]map[string]store.BindingKind, len(asked))
	known := make([]bool, len(asked))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, h := range asked {
		group.Go(func() error {
			now[i], known[i] = b.hasNow(ctx, h)
			return nil
		})
	}
	_ = group.Wait() // never an error: the functions return nil, so that each hook is checked
	for i, h := range asked {
		for id, record := range h.bindings {
			if !known[i] || now[i][id] == record.Kind {
				continue
			}
			if err := each(Binding{graph.Subject{Module: h.module, Hook: h.name, Binding: id}, checksumOf(h.Hook)}, record); err != nil {
				return err
			}
		}
	}
	return nil
}

// askedHooks returns the hooks with attached bindings of the given kinds. It omits bindings whose records, or the
// records of their hooks, cannot be read.
func (b *Bindings) askedHooks(kinds []store.BindingKind) (hooks []*askedHook, err error) {
	err = b.db.View(func(tx *store.Tx) error {
		byName := map[[2]string]*askedHook{}
		for k := range tx.Range(store.At(store.Bindings)) {
			record, _, err := store.Load[store.Binding](tx, k)
			if errors.As(err, new(*store.RecordError)) {
				continue // the trigger for Kubernetes events moves the record
			}
			if err != nil {
				return err
			}
			if record.Detached || !slices.Contains(kinds, record.Kind) {
				continue
			}
			subject, err := store.ParseBindingKey(k)
			if err != nil {
				return err
			}
			key := [2]string{subject.Module, subject.Hook}
			h := byName[key]
			if h == nil {
				recorded, _, err := store.Load[store.Hook](tx, store.HookKey(subject.Module, subject.Hook))
				if errors.As(err, new(*store.RecordError)) {
					continue // the record has the file of the hook, without which the hook cannot be asked
				}
				if err != nil {
					return err
				}
				h = &askedHook{Hook: recorded, module: subject.Module, name: subject.Hook, bindings: map[string]store.Binding{}}
				byName[key] = h
				hooks = append(hooks, h)
			}
			h.bindings[subject.Binding] = record
		}
		return nil
	})
	return hooks, err
}

// checksumOf returns a checksum of the recorded code and configuration of the hook.
func checksumOf(h store.Hook) string {
	sum := sha256.Sum256(append([]byte(h.Digest), h.Config...))
	return hex.EncodeToString(sum[:])
}

// hasNow returns the webhook bindings in the current configuration of the hook h, by ID. The result known is false if
// hasNow cannot get this configuration.
func (b *Bindings) hasNow(ctx context.Context, h *askedHook) (has map[string]store.BindingKind, known bool) {
	var file hook.File
	if err := json.Unmarshal(h.File, &file); err != nil {
		return nil, false
	}
	file, err := b.modules.Locate(h.module, file)
	if errors.Is(err, hook.ErrGone) {
		return nil, true
	}
	if err != nil {
		return nil, false
	}
	digest, err := b.modules.CodeOf(h.module)
	if err != nil {
		return nil, false
	}
	asked, err := b.hooks.AskOnce(ctx, h.module, file, digest)
	if err != nil { // the run of the module reports the error
		return nil, false
	}
	now, err := bindings.DecodeHook(asked)
	if err != nil {
		return nil, false
	}
	ids, has := now.Config.BindingIDs(), map[string]store.BindingKind{}
	for kind, all := range map[store.BindingKind][]string{
		store.Validating: ids.Validating, store.Mutating: ids.Mutating, store.Conversion: ids.Conversion,
	} {
		for _, id := range all {
			has[id] = kind
		}
	}
	return has, true
}

// Withdraw deletes the bindings in found. It skips a binding if the recorded code or configuration of its hook has
// changed after Find.
func (b *Bindings) Withdraw(tx *store.Tx, found []Binding) error {
	for _, o := range found {
		h, _, err := store.Load[store.Hook](tx, store.HookKey(o.Subject.Module, o.Subject.Hook))
		if err != nil {
			return err
		}
		if checksumOf(h) != o.Owner {
			continue
		}
		tx.Delete(store.BindingKey(o.Subject.Module, o.Subject.Hook, o.Subject.Binding))
		subject := o.Subject.String()
		tx.OnCommit(func() {
			b.log.Info().Str("subject", subject).Msg("webhook removed: the hook no longer has this binding")
		})
	}
	return nil
}
