package survey

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/addons/modules"
	"addon-operator/steps/desired"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// surveyed are the kinds of problems that a survey finds.
var surveyed = []store.ProblemKind{
	store.NotExecutable, store.NewDirectory, store.ChangedDirectory, store.GoneDirectory, store.BadDirectories, store.UnknownKey,
	store.UnusableAddon, store.OrphanedModule, store.SharedObject,
}

// Changes is notified after commits that may have caused or solved a problem.
type Changes interface {
	// ProblemsChanged is called after a commit that may have caused or solved a problem, so that [Survey.Run] should
	// be called.
	ProblemsChanged()
}

// Hooks checks the configurations of hooks.
type Hooks interface {
	// CheckHooks asks the hooks of the modules of set for their configurations. It returns an error for each module
	// whose hooks cannot be used, by the name of the module.
	CheckHooks(ctx context.Context, set module.Set) (map[string]error, error)
}

// Sources are the sources that a survey reads.
type Sources struct {
	DB        *store.DB
	Log       *oncelog.Logger
	Modules   *desired.Modules
	Addons    *modules.Provided
	Applied   *sections.Applied
	Values    *desired.Values
	ConfigMap *desired.ConfigMap
	Hooks     Hooks
}

// A Survey finds problems of the module directories and the ConfigMap before the next converge is affected by them.
// In the store, it changes only problems.
type Survey struct {
	sources Sources
	changes Changes

	discovered atomic.Bool // true after a discovery of this epoch has read the module directories

	mu      sync.Mutex
	ranWith map[string]string // by module: runUnderWay, runEnded, or the digest of its directory after its last run; guarded by mu
}

// New returns a survey of sources. After each commit that ends a module run, the survey calls the method
// ProblemsChanged of the argument changes.
func New(sources Sources, changes Changes) *Survey {
	return &Survey{sources: sources, changes: changes}
}

// Discovered records that a discovery of this epoch has read the directories of modules.
func (s *Survey) Discovered() { s.discovered.Store(true) }

// A surveyRun is the state of one call of [Survey.Run], which compares the directories and the ConfigMap with the
// records in the store.
type surveyRun struct {
	survey *Survey
	found  map[store.ProblemKind][]store.Problem
	known  map[string]store.Module // by name
	config values.Config           // content of the ConfigMap that is in force
	files  []string                // values files of the directories of modules, from the last discovery
	// provided are the names of modules made from addons, including modules that no discovery has found yet.
	provided []string
	// expected is true if it is possible that further modules are soon made from addons; see
	// [modules.Provided.Expected].
	expected bool
	// converged is true if the converge of the current start has ended.
	converged bool
}

// mostNamed is the maximum number of modules that a problem names.
const mostNamed = 20

// Run reads the directories of modules and hooks, and saves the problems that it finds. Examples are a hook file
// without an execute bit, a directory that is new, changed or missing, a key of the ConfigMap that belongs to no
// module, and an object that two modules have. Solved problems are deleted. Run does not replace the modules in
// use, which the last [desired.Modules.Scan] has found.
func (s *Survey) Run() error {
	v := surveyRun{survey: s, found: map[store.ProblemKind][]store.Problem{}}
	kinds := surveyed
	set, err := s.sources.Modules.List()
	if err != nil {
		kinds = []store.ProblemKind{store.BadDirectories} // without the directories, other kinds of problems cannot be checked
		v.add(store.BadDirectories, store.Problem{
			Object: strings.Join(s.sources.Modules.Dirs(), ":"), Error: err.Error(), Fix: "mount the directory, or correct the file that the error names",
		})
	} else if err := v.compare(set); err != nil {
		return err
	} else if err := v.addons(); err != nil {
		return err
	} else if err := v.sharedObjects(); err != nil {
		return err
	} else {
		v.unknownKeys(set)
	}
	return s.sources.DB.Update(func(tx *store.Tx) error {
		if err := v.leaveOutDisabled(tx); err != nil {
			return err
		}
		for _, kind := range kinds {
			if _, err := store.ReplaceProblems(tx, kind, v.found[kind]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (v *surveyRun) add(kind store.ProblemKind, p store.Problem) {
	v.found[kind] = append(v.found[kind], p)
}

// addons reports addons that cannot be used as modules, and modules whose addon is no longer registered.
func (v *surveyRun) addons() error {
	if !v.survey.sources.Addons.Enabled() {
		return nil
	}
	selected, err := v.survey.sources.Addons.Choose()
	for _, m := range selected.Modules {
		v.provided = append(v.provided, m.Name)
	}
	for _, p := range selected.Problems {
		v.add(p.Kind, p)
	}
	return err
}

// sharedObjects reports objects that are in the releases of two enabled modules.
func (v *surveyRun) sharedObjects() error {
	return v.survey.sources.DB.View(func(tx *store.Tx) (err error) {
		v.found[store.SharedObject], err = sharedObjects(tx, v.known)
		return err
	})
}

// leaveOutDisabled drops the problems of orphaned modules that are, in the transaction tx, disabled or being deleted.
// The transition that disables a module has deleted its problem, and this run of the survey must not save it again.
func (v *surveyRun) leaveOutDisabled(tx *store.Tx) error {
	known, err := store.LoadReadableModules(tx)
	v.found[store.OrphanedModule] = slices.DeleteFunc(v.found[store.OrphanedModule], func(p store.Problem) bool {
		m := known[p.Subject.Module]
		return !m.Enabled || m.State == store.Deleting || m.State == store.Uninstalled
	})
	return err
}

// compare reports differences between the directories in set and the records in the store.
func (v *surveyRun) compare(set module.Set) error {
	scanned := v.survey.discovered.Load()
	if err := v.survey.sources.DB.View(func(tx *store.Tx) (err error) {
		if v.known, err = store.LoadReadableModules(tx); err != nil {
			return err
		}
		l, err := store.LoadStartup(tx)
		if err != nil {
			return err
		}
		v.converged, v.files = l.HasConverged(), l.ValuesFiles
		if v.expected, err = v.survey.sources.Addons.Expected(tx); err != nil {
			return err
		}
		v.config, err = v.survey.sources.Applied.InForce(tx)
		return err
	}); err != nil {
		return err
	}
	scanned = scanned || v.converged
	// Before the first discovery of this epoch, it is possible that the addons configurations have not been listed.
	v.expected = v.expected || v.survey.sources.Addons.Enabled() && !scanned
	v.hooks("", hook.Global, v.survey.sources.Modules.GlobalHooks())
	for _, m := range set.Modules {
		if m.Broken == nil {
			v.hooks(m.Name, hook.Module, m.Path)
		}
		record, found := v.known[m.Name]
		switch {
		case !scanned: // the first discovery after the start reads all directories
		case !found || record.Missing:
			v.add(store.NewDirectory, store.Problem{
				Subject: graph.Subject{Module: m.Name}, Object: m.Path,
				Error: m.Title() + " is new; no converge has read it yet", Command: []string{"reload"},
			})
		default:
			v.changes(m, record)
		}
	}
	switch {
	case scanned && len(set.Empty) > 0:
		v.unseen(set)
		v.lostValues(set)
	case scanned:
		v.missing(set)
	}
	return nil
}

// The method unseen reports installed modules that are not on disk. The caller must have found an empty directory of
// modules. Perhaps the volume with the installed modules is not mounted there.
func (v *surveyRun) unseen(set module.Set) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(v.known)) {
		if _, onDisk := set.Find(name); !onDisk && v.known[name].State != store.Off {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	dirs, shown := strings.Join(set.Empty, ", "), names[:min(len(names), mostNamed)]
	v.add(store.BadDirectories, store.Problem{
		Object: dirs, More: len(names) - len(shown),
		Error: fmt.Sprintf("%s holds no module, so installed modules cannot be seen: %s. They stay as they are, and are neither upgraded nor deleted",
			dirs, strings.Join(shown, ", ")),
		Fix: "mount the directory. To uninstall these modules, disable them in the ConfigMap while their directories are mounted",
	})
}

// The method lostValues reports each missing values file whose directory of modules is empty.
func (v *surveyRun) lostValues(set module.Set) {
	for _, path := range set.LostValues(v.files) {
		v.add(store.BadDirectories, store.Problem{
			Object: path,
			Error: fmt.Sprintf("%s is missing, and %s holds no module. A module of another directory that only this file enabled stays as it is: it is neither upgraded nor deleted, unless the ConfigMap disables it",
				path, filepath.Dir(path)),
			Fix: "mount the directory. If it must stay empty, write an empty values.yaml to it, and run addon-operator reload",
		})
	}
}

// The method hooks reports programs in the hook directory dir that lack the execute bit.
func (v *surveyRun) hooks(moduleName string, scope hook.Scope, dir string) {
	_, skipped, err := hook.Find(scope, dir)
	if err != nil {
		return // the step that runs the hooks reports the error
	}
	for _, file := range skipped {
		if !file.MissingBit {
			continue
		}
		whose, then := "global hook", "restart the operator"
		if moduleName != "" {
			whose, then = "hook of module "+moduleName, "run addon-operator reload"
		}
		name, err := filepath.Rel(dir, file.Path)
		if err != nil {
			name = filepath.Base(file.Path)
		}
		v.add(store.NotExecutable, store.Problem{
			Subject: graph.Subject{Module: moduleName, Hook: name}, Object: file.Path,
			Error: fmt.Sprintf("%s is not executable, so it is not run as a %s", file.Path, whose),
			Fix:   "chmod +x " + file.Path + ", also where the image is built, or move a library to a directory named lib. Then " + then,
		})
	}
}

// The method changes reports the directory of module m as a problem if the module can no longer be loaded, or if it is
// enabled and the directory has changed after the last run of the module.
func (v *surveyRun) changes(m module.Module, record store.Module) {
	digest, broken := "", m.Broken
	if broken == nil {
		digest, broken = v.survey.sources.Modules.DirectoryDigest(m)
	}
	if broken != nil {
		if record.Broken == "" {
			v.add(store.ChangedDirectory, store.Problem{
				Subject: graph.Subject{Module: m.Name}, Object: m.Path,
				Error: fmt.Sprintf("module directory %s has changed and cannot be loaded: %v", m.Path, broken), Fix: "correct the file that the error names",
			})
		}
		return
	}
	if !v.survey.changedSinceRun(m.Name, digest, v.converged) || !record.Enabled {
		return
	}
	v.add(store.ChangedDirectory, store.Problem{
		Subject: graph.Subject{Module: m.Name}, Object: m.Path,
		Error:   fmt.Sprintf("%s has changed since the last run of module %s", m.Title(), m.Name),
		Command: []string{"module", "run", m.Name},
	})
}

// The method missing reports installed modules that have no directory, and whose releases the next converge purges. It
// omits modules whose directory was already missing at the last discovery: the steps report these modules.
func (v *surveyRun) missing(set module.Set) {
	for _, name := range slices.Sorted(maps.Keys(v.known)) {
		if _, onDisk := set.Find(name); onDisk || v.known[name].State == store.Off || v.known[name].Missing {
			continue
		}
		v.add(store.GoneDirectory, store.Problem{
			Subject: graph.Subject{Module: name}, Object: name,
			Error: fmt.Sprintf("the directory of module %s is gone; the next converge purges its release", name),
			Fix:   "restore or mount the directory to keep the release", Command: []string{"reload"}, Effect: "uninstalls the release, with all its objects",
		})
	}
}

// As long as the digest of a module's directory is not known, Survey.ranWith has one of these values instead.
const (
	runUnderWay = "under way" // the run of the module has not ended; its hooks may write into the directory
	runEnded    = "ended"     // the run of the module has ended; the next survey stores the digest of the directory
)

// RunBegan records, after the commit of tx, that a run of the module has begun.
func (s *Survey) RunBegan(tx *store.Tx, module string) { s.noteRun(tx, module, runUnderWay) }

// RunEnded records, after the commit of tx, that a run of the module has ended, and calls ProblemsChanged.
func (s *Survey) RunEnded(tx *store.Tx, module string) {
	s.noteRun(tx, module, runEnded)
	tx.OnCommit(s.changes.ProblemsChanged)
}

// noteRun records, after the commit of tx, the state of a module's run: runUnderWay or runEnded.
func (s *Survey) noteRun(tx *store.Tx, name, state string) {
	tx.OnCommit(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ranWith == nil {
			s.ranWith = map[string]string{}
		}
		s.ranWith[name] = state
	})
}

// changedSinceRun reports whether the digest of a module's directory has changed since the last run of the module.
// Files that the hooks of the module wrote during the run do not count as a change. If the module has not run in this
// epoch, the digest is compared with the digest of the first survey after the converge of the start.
func (s *Survey) changedSinceRun(name, digest string, converged bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ran, known := s.ranWith[name]
	switch {
	case ran == runUnderWay:
		return false
	case known && ran != runEnded:
		return ran != digest
	case !known && !converged:
		return false
	}
	if s.ranWith == nil {
		s.ranWith = map[string]string{}
	}
	s.ranWith[name] = digest
	return false
}

// Repaired returns the names of the repaired modules: the store records them as broken, but they can be loaded from the
// disk. The result broken is the number of all modules that the store records as broken. Repaired does not change the
// modules in use; the next converge uses the repaired modules.
func (s *Survey) Repaired(ctx context.Context) (names []string, broken int, err error) {
	var known map[string]store.Module
	if err := s.sources.DB.View(func(tx *store.Tx) (err error) {
		known, err = store.LoadReadableModules(tx)
		return err
	}); err != nil {
		return nil, 0, err
	}
	maps.DeleteFunc(known, func(_ string, m store.Module) bool { return m.Broken == "" })
	if len(known) == 0 {
		return nil, 0, nil
	}
	names, err = s.loadable(ctx, known)
	return names, len(known), err
}

// loadable returns the names of the modules among known that can be loaded from the disk.
func (s *Survey) loadable(ctx context.Context, known map[string]store.Module) (names []string, err error) {
	set, err := s.sources.Modules.Read()
	if err != nil {
		return nil, err
	}
	schemas, err := s.sources.Modules.LoadSchemas(set)
	if err != nil {
		return nil, err
	}
	candidates := module.Set{Static: set.Static}
	for _, m := range set.Modules {
		if _, ok := known[m.Name]; ok && m.Broken == nil {
			candidates.Modules = append(candidates.Modules, m)
		}
	}
	broken, err := s.sources.Hooks.CheckHooks(ctx, candidates)
	if err != nil {
		return nil, err
	}
	for _, m := range candidates.Modules {
		if broken[m.Name] != nil {
			continue
		}
		if err := s.sources.DB.View(func(tx *store.Tx) error {
			layers, err := s.sources.Values.LayersOf(tx, m.Key)
			if err != nil {
				return err
			}
			layers.Static, layers.Schemas = set.Static, schemas
			return layers.CheckFiles(m.Key)
		}); err == nil {
			names = append(names, m.Name)
		}
	}
	return names, nil
}

// unknownKeys reports keys of the ConfigMap that belong to no module. As long as it is possible that further modules
// are made from addons, it reports nothing. Unknown keys are logged only after the converge of the start, because a
// new cluster may get its addons configurations during the converge.
func (v *surveyRun) unknownKeys(set module.Set) {
	if v.expected {
		return
	}
	modules := []string{values.Global}
	for _, m := range set.Modules {
		if m.Key != "" {
			modules = append(modules, m.Key)
		}
	}
	for _, name := range v.provided {
		modules = append(modules, values.Camel(name))
	}
	for _, key := range sections.UnknownKeys(modules, v.config) {
		text := fmt.Sprintf("%s: key %q has no effect: %s", v.survey.sources.ConfigMap.Name(), key, sections.NoModule(key, modules))
		if v.converged {
			v.survey.sources.Log.Once(zerolog.WarnLevel, text)
		}
		v.add(store.UnknownKey, store.Problem{Object: key, Error: text, Fix: v.survey.sources.ConfigMap.EditConfig()})
	}
}
