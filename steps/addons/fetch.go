package addons

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog"
	"addon-operator/internal/catalog/source"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// mostRepositories is the maximum number of repositories of one configuration that are fetched in parallel.
// mostAddons is the maximum number of addons of one repository that are fetched in parallel. The fetcher also limits
// the requests to each host.
const (
	mostRepositories = 4
	mostAddons       = 4
)

// fetchStep fetches the repositories of a configuration.
type fetchStep struct{ *Runtime }

// Do fetches all repositories of the configuration. It stores the result of each repository as soon as it is known; a
// repeated attempt replaces the results. An error of a repository or an addon is stored as a result, and Do does not
// return it. If the configuration was changed or deleted after the round began, Do ends early with the fact
// [addons.Newer].
func (s *fetchStep) Do(ctx context.Context, t workflow.Task) (out workflow.Outcome, err error) {
	id := identityOf(t)
	known, err := s.record(id)
	if err != nil {
		return out, err
	}
	fetching, end := s.fetches.begin(ctx, id, known)
	defer end()
	live, err := s.unchanged(fetching, id, known)
	if err == nil && live != nil {
		out, err = s.fetchAll(fetching, id, known, live.Spec.Repositories)
	}
	if changed := errors.Is(context.Cause(fetching), errChanged); changed && ctx.Err() == nil || err == nil && live == nil {
		return workflow.Outcome{Facts: []graph.Fact{addons.Newer}, Detail: "it was changed meanwhile"}, nil
	}
	return out, err
}

// Skipped plans another attempt as postpone does. The round does not end, so the registered addons of the configuration
// stay.
func (s *fetchStep) Skipped(tx *store.Tx, t workflow.Task) error { return s.postpone(tx, t) }

// fetchAll fetches all repositories of a configuration.
func (s *fetchStep) fetchAll(ctx context.Context, id api.Identity, known store.Configuration, repositories []api.Repository) (out workflow.Outcome, err error) {
	r := newRound(s.Runtime, id, known)
	if err := r.readEarlier(known, repositories); err != nil {
		return out, err
	}
	if err := s.inParallel(min(len(repositories), registry.MaxRepositories), mostRepositories, func(i int) error {
		return r.fetch(ctx, i, repositories[i])
	}); err != nil {
		return out, err
	}
	if n := len(repositories); n > registry.MaxRepositories {
		if err := r.save(ctx, registry.MaxRepositories, registry.TooManyRepositories(repositories[registry.MaxRepositories].URL, n)); err != nil {
			return out, err
		}
	}
	out.Facts = []graph.Fact{addons.AllFetched}
	out.Detail = fmt.Sprintf("repositories: %d, addons: %d", len(repositories), r.addons)
	return out, registry.Sweep(ctx, s.DB)
}

// unchanged returns the configuration as the API server has it. If the configuration was changed or deleted after its
// latest round began, unchanged returns nil, because the round need not be finished.
func (r *Runtime) unchanged(ctx context.Context, id api.Identity, known store.Configuration) (*api.Configuration, error) {
	live, exists, err := r.Configurations.Get(ctx, id)
	if err != nil || !exists || live.DeletionTimestamp != nil ||
		string(live.UID) != known.UID || live.Generation != known.Generation {
		return nil, err
	}
	return live, nil
}

// inParallel calls the function do for each number from 0 to n-1, with at most width calls at a time, and returns the
// errors. All configurations share a limited number of additional goroutines. If none of them is free, inParallel
// makes the call in the goroutine of its caller. The limit keeps the memory small even if there are many
// configurations. A server that hangs delays only the configurations that use it, because each caller can continue in
// its own goroutine.
func (r *Runtime) inParallel(n, width int, do func(int) error) error {
	errs := make([]error, n)
	own := make(chan struct{}, width)
	var running sync.WaitGroup
	for i := range n {
		own <- struct{}{}
		select {
		case r.fetching <- struct{}{}:
			running.Go(func() {
				errs[i] = do(i)
				<-r.fetching
				<-own
			})
		default:
			errs[i] = do(i)
			<-own
		}
	}
	running.Wait()
	return errors.Join(errs...)
}

// A round is the state of one fetch of all repositories of a configuration.
type round struct {
	*Runtime
	id    api.Identity
	round store.ID
	// earlier has the results of the last complete round of the configuration, by the URL of the repository.
	earlier map[string]store.RepositoryResult
	// replaced has the addons of the earlier repositories whose URLs the configuration does not have any more.
	replaced []store.AddonResult
	// deadline is the time at which the requests of the round are canceled.
	deadline time.Time
	tooLong  error // the error of requests that are canceled at the deadline

	mu     sync.Mutex
	addons int             // number of addons in the repositories fetched so far; guarded by mu
	budget registry.Budget // guarded by mu
}

func newRound(r *Runtime, id api.Identity, known store.Configuration) *round {
	within := cmp.Or(r.FetchWithin, DefaultFetchWithin)
	return &round{
		Runtime: r, id: id, round: known.Round, earlier: map[string]store.RepositoryResult{},
		deadline: r.DB.Now().Add(within), tooLong: fmt.Errorf("fetching all repositories of the configuration takes longer than the limit of %s", within),
	}
}

// limit returns a context for a request. The context ends at the deadline of the round.
func (r *round) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, r.deadline.Sub(r.DB.Now()), r.tooLong)
}

// readEarlier sets r.earlier to the results of the last complete round, so that unchanged files are not fetched
// again. The argument repositories has the repositories of the configuration.
func (r *round) readEarlier(known store.Configuration, repositories []api.Repository) error {
	present := map[string]bool{}
	for _, of := range repositories {
		present[of.URL] = true
	}
	return r.DB.View(func(tx *store.Tx) error {
		results, err := registry.Results(tx, cmp.Or(known.Registered, known.Earlier))
		for _, result := range results {
			r.earlier[result.URL] = result
			if present[result.URL] {
				continue
			}
			for _, addon := range latest(result) {
				r.replaced = append(r.replaced, store.AddonResult{Entry: addon.Entry, EntryVersion: addon.EntryVersion})
			}
		}
		return err
	})
}

// fetch fetches the i-th repository and stores the result. It returns an error only if the store fails or ctx has
// ended.
func (r *round) fetch(ctx context.Context, i int, of api.Repository) error {
	ends := func(api.Reason) {}
	if r.Fetches != nil {
		ends = r.Fetches(scopeOf(r.id))
	}
	result, err := r.read(ctx, of)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	if result.Reason != "" {
		if err := r.saveKnown(ctx, &result); err != nil {
			return err
		}
	}
	if result, err = r.fit(result); err != nil {
		return err
	}
	ends(api.Reason(result.Reason))
	return r.save(ctx, i, result)
}

// reserve takes the entries of an index from the budget of the round. It returns false if there are too many.
func (r *round) reserve(entries int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.budget.Reserve(entries)
}

// fit returns result or, if it is too large, a result whose message names the limit; see [registry.Budget.Fit].
func (r *round) fit(result store.RepositoryResult) (_ store.RepositoryResult, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result, err = r.budget.Fit(result)
	r.addons += len(result.Addons)
	return result, err
}

// save stores the result of the i-th repository.
func (r *round) save(ctx context.Context, i int, result store.RepositoryResult) error {
	return r.DB.UpdateWithRoom(ctx, func(tx *store.Tx) error {
		return registry.SaveResult(tx, scopeOf(r.id), r.id.Name, r.round, i, result)
	})
}

// read reads a repository and returns the result: its addons, or the reason why it cannot be read.
func (r *round) read(ctx context.Context, of api.Repository) (store.RepositoryResult, error) {
	result := store.RepositoryResult{URL: of.URL}
	fail := func(reason api.Reason, err error) (store.RepositoryResult, error) {
		result.Reason, result.Message, result.Permanent = string(reason), reason.Message(err), isPermanent(err)
		if fix := (*fixError)(nil); errors.As(err, &fix) {
			result.Fix = fix.fix
		}
		return result, nil
	}
	if of.URL == "" {
		result.Reason, result.Message = string(api.EmptyURLError), api.EmptyURLMessage
		return result, nil
	}
	limited, cancel := r.limit(ctx)
	defer cancel()
	address, err := r.address(limited, of)
	if err != nil {
		if _, unavailable := errors.AsType[*unavailableError](err); unavailable {
			return fail(api.FetchingIndexError, &fixError{err, "check the API server; the operator reads the Secret again after a delay"})
		}
		return fail(api.TemplatingURLError, err)
	}
	repository, err := r.Fetcher.Open(address)
	if err != nil {
		return fail(reasonOf(err, api.FetchingIndexError), err)
	}
	defer repository.Close()
	earlier := r.earlier[of.URL]
	document, err := repository.Index(limited, validators(earlier.Index))
	if err != nil {
		return fail(reasonOf(err, api.FetchingIndexError), err)
	}
	entries := entriesOf(earlier)
	if !document.NotModified {
		if entries, err = r.indexes.parse(ctx, document); err != nil {
			return fail(api.FetchingIndexError, fmt.Errorf("while reading repository index: %w", err))
		}
	}
	if !r.reserve(len(entries)) {
		return registry.TooManyEntries(of.URL), nil
	}
	if result.Index, err = json.Marshal(document.Validators); err != nil {
		return result, err
	}
	before := map[[2]string]store.AddonResult{}
	for _, addon := range latest(earlier) {
		before[[2]string{addon.Entry, addon.EntryVersion}] = addon
	}
	result.Addons = make([]store.AddonResult, len(entries))
	err = r.inParallel(len(entries), mostAddons, func(i int) (err error) {
		result.Addons[i], err = r.readAddon(ctx, repository, entries[i], before[[2]string{entries[i].Name, entries[i].Version}])
		return err
	})
	return result, err
}

// A fixError is an error with advice on how to solve it.
type fixError struct {
	error

	fix string
}

// Unwrap returns the error without the advice.
func (e *fixError) Unwrap() error { return e.error }

// address returns the URL of a repository, with its placeholders replaced by values of the Secret that the repository
// names. It reads the Secret only if the URL has placeholders.
func (r *round) address(ctx context.Context, of api.Repository) (source.Address, error) {
	if len(source.Placeholders(of.URL)) == 0 || of.SecretRef == nil {
		return source.Render(of.URL, nil)
	}
	namespace := of.SecretRef.Namespace
	switch {
	case r.id.Namespace == "" && namespace == "":
		return source.Address{}, &fixError{
			errors.New("secretRef.namespace is empty; a ClusterAddonsConfiguration must name the namespace of the Secret"),
			fmt.Sprintf("set secretRef.namespace of the repository to the namespace of Secret %q", of.SecretRef.Name),
		}
	case r.id.Namespace != "" && namespace != "" && namespace != r.id.Namespace:
		return source.Address{}, &fixError{
			fmt.Errorf("secretRef.namespace is %q; an AddonsConfiguration can only use Secrets of its own namespace %q", namespace, r.id.Namespace),
			fmt.Sprintf("create Secret %q in namespace %q, and remove secretRef.namespace of the repository", of.SecretRef.Name, r.id.Namespace),
		}
	case namespace == "":
		namespace = r.id.Namespace
	}
	secret, err := r.Configurations.Secret(ctx, namespace, of.SecretRef.Name)
	if err != nil {
		return source.Address{}, err
	}
	return source.Render(of.URL, secret)
}

// readAddon fetches the addon of an entry in the index of a repository, and returns the result. The argument before
// is the result for the same entry in an earlier round.
func (r *round) readAddon(ctx context.Context, from *source.Repository, entry catalog.Entry, before store.AddonResult) (store.AddonResult, error) {
	result := store.AddonResult{Entry: entry.Name, EntryVersion: entry.Version}
	if entry.Err != nil {
		result.Reason, result.Message, result.EntryError = string(api.LoadingError), api.LoadingError.Message(entry.Err), entry.Err.Error()
		return result, nil
	}
	known := source.Validators{}
	if isCurrent(before) {
		held, err := r.hold(ctx, before.Content)
		if err != nil {
			return result, err
		}
		if held {
			known = validators(before.Source)
		}
	}
	limited, cancel := r.limit(ctx)
	defer cancel()
	content, err := from.Addon(limited, entry.Name, entry.Version, known)
	if err != nil {
		reason := reasonOf(err, api.FetchingError)
		result.Reason, result.Message, result.Permanent = string(reason), reason.Message(err), isPermanent(err)
		return result, ctx.Err()
	}
	defer content.Close()
	if result.Source, err = json.Marshal(content.Validators); err != nil {
		return result, err
	}
	if content.NotModified {
		result.Content = before.Content
		return result, nil
	}
	result.Content = registry.ContentName(content.Validators.Digest)
	return result, r.storeContent(ctx, content, result)
}

// storeContent makes the round a holder of the content. If the content is not in the store, storeContent parses and
// stores it. Before that it waits for a semaphore, which limits how many contents are parsed at the same time. After
// the wait it checks the store again, because another round may have stored the same content.
func (r *round) storeContent(ctx context.Context, content *source.Content, addon store.AddonResult) error {
	if held, err := r.hold(ctx, addon.Content); err != nil || held {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case r.parsing <- struct{}{}:
	}
	defer func() { <-r.parsing }()
	if held, err := r.hold(ctx, addon.Content); err != nil || held {
		return err
	}
	parsed := registry.Parsed{Name: addon.Content}
	files, err := content.FS(ctx)
	if err == nil {
		parsed.Loaded, err = catalog.Load(files)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil { // the stored text omits the name of the addon, because another addon may have the same content
		parsed.Err = errors.New(strings.TrimPrefix(err.Error(), loading(addon.Entry, addon.EntryVersion)))
	}
	return registry.Put(ctx, r.DB, store.RoundHolder(r.round), parsed)
}

// hold makes the round a holder of the content if the content is in the store. It reports whether it is.
func (r *round) hold(ctx context.Context, content string) (held bool, err error) {
	err = r.DB.UpdateWithRoom(ctx, func(tx *store.Tx) (err error) {
		held, err = registry.Hold(tx, store.RoundHolder(r.round), content)
		return err
	})
	return held, err
}

// validators decodes the HTTP validators, such as an ETag, that are stored with a result.
func validators(stored json.RawMessage) (v source.Validators) {
	if json.Unmarshal(stored, &v) != nil {
		return source.Validators{} // without validators, the file is fetched again
	}
	return v
}

// isCurrent reports whether an addon has a content in the current format; see [registry.ContentName]. Otherwise the
// addon must be fetched and parsed again, even if it is unchanged in its repository.
func isCurrent(addon store.AddonResult) bool {
	digest := validators(addon.Source).Digest
	return digest != "" && addon.Content == registry.ContentName(digest)
}

// latest returns the addons in the index of a repository, as the index was when it was last read successfully. If the
// repository failed in the round of result, these are the addons of an earlier round.
func latest(result store.RepositoryResult) []store.AddonResult {
	if result.Reason != "" {
		return result.Known
	}
	return result.Addons
}

// saveKnown copies the addons and validators of an earlier round to result, which belongs to a repository that has
// failed. So the next round can still skip unchanged files. If the URL of the repository is new, saveKnown instead
// copies the names and versions of the addons of replaced URLs, because the new URL may lead to a repository with the
// same addons.
func (r *round) saveKnown(ctx context.Context, result *store.RepositoryResult) error {
	earlier, known := r.earlier[result.URL]
	if !known {
		result.Known = r.replaced
		return nil
	}
	for _, addon := range latest(earlier) {
		result.Known = append(result.Known, store.AddonResult{
			Entry: addon.Entry, EntryVersion: addon.EntryVersion, EntryError: addon.EntryError, Source: addon.Source, Content: addon.Content,
		})
	}
	result.Index = earlier.Index
	for next := 0; next < len(result.Known); {
		first := next
		if err := r.DB.UpdateWithRoom(ctx, func(tx *store.Tx) error {
			for next = first; next < len(result.Known) && !tx.Spent(); next++ {
				addon := &result.Known[next]
				held := false
				if isCurrent(*addon) {
					var err error
					if held, err = registry.Hold(tx, store.RoundHolder(r.round), addon.Content); err != nil {
						return err
					}
				}
				if !held { // the addon is fetched again
					addon.Source, addon.Content = nil, ""
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// entriesOf returns the entries of the addons that [latest] returns.
func entriesOf(result store.RepositoryResult) []catalog.Entry {
	addons := latest(result)
	entries := make([]catalog.Entry, len(addons))
	for i, addon := range addons {
		entries[i] = catalog.Entry{Name: addon.Entry, Version: addon.EntryVersion}
		if addon.EntryError != "" {
			entries[i].Err = errors.New(addon.EntryError)
		}
	}
	return entries
}

// reasonOf returns the reason in err if err is a [source.Error] with a reason. For any other error, it returns its
// second argument.
func reasonOf(err error, otherwise api.Reason) api.Reason {
	if failure, ok := errors.AsType[*source.Error](err); ok && failure.Reason != "" {
		return failure.Reason
	}
	return otherwise
}

// isPermanent reports whether another request for the same URL would fail in the same way.
func isPermanent(err error) bool {
	failure, ok := errors.AsType[*source.Error](err)
	return ok && failure.Permanent
}
