package safety

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"addon-operator/internal/helm"
	"addon-operator/internal/kube"
	"addon-operator/internal/module"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/sections"
	"addon-operator/store"
)

// An Observer is notified of blocked deletions, to log and count them. An Observer does not influence the steps.
type Observer interface {
	// DeletionBlocked reports releases that were not deleted because of a safety check.
	DeletionBlocked(releases []string, why string)
}

// A ConfigMap returns the name of the operator's ConfigMap.
type ConfigMap interface {
	// Name returns the kind and the name of the object.
	Name() string
}

// Options are the clients and settings of the safety checks.
type Options struct {
	Helm      *helm.Client
	Kube      *kube.Client
	Namespace string // of the releases
	// IgnoreRelease is the name of the operator's own release, which is never purged; empty if it is not set.
	IgnoreRelease string
	// Pod is the name of the operator's own pod, or the host name if the name of the pod is not known. The release that
	// contains the pod is also never purged. If Pod is empty, only the release IgnoreRelease is protected.
	Pod string
	// PodNamespace is the namespace of the operator's own pod. It can be another one than that of the releases.
	PodNamespace string
	// InPod is true if the operator certainly runs in a pod of this cluster. Otherwise, Pod can be the host name of a
	// machine outside of the cluster, and it is no error if no pod has this name.
	InPod bool
	// AllowPurge is the maximum number of releases that one discovery may purge, or delete with their disabled modules,
	// even if they are more than half of all releases.
	AllowPurge int
}

// Checks checks the deletions of discoveries.
type Checks struct {
	options  Options
	log      *oncelog.Logger
	config   ConfigMap
	observer Observer
}

// New returns the checks. Blocked deletions are reported to log and observer.
func New(o Options, log *oncelog.Logger, config ConfigMap, observer Observer) *Checks {
	return &Checks{options: o, log: log, config: config, observer: observer}
}

// Permission has the data that decides which deletions are permitted. [Load] reads the data from the store.
type Permission struct {
	// Allowed is the permission that a person has given; its zero value permits nothing.
	Allowed store.AllowedPurge
	// Configured is true if a person has written the ConfigMap in force. It is false if the ConfigMap does not exist.
	Configured bool
	// OnlyHooks is true if the ConfigMap in force exists, and only hooks have written it.
	OnlyHooks bool
}

// Load reads the Permission for a discovery from the store.
func Load(tx *store.Tx) (p Permission, err error) {
	_, record, err := sections.LoadApplied(tx)
	if err != nil {
		return p, err
	}
	p.Configured, p.OnlyHooks = record.ResourceVersion != "" && !record.OnlyHooks, record.OnlyHooks
	p.Allowed, _, err = store.Load[store.AllowedPurge](tx, store.AllowedPurgeKey())
	return p, err
}

// A Discovery has the releases that one discovery finds, and the deletions that were blocked.
type Discovery struct {
	// Unknown are the names of the releases that may be purged: they have no module directory, were not made from
	// addons, and are not the operator's own release. If the operator's own release cannot be determined, Unknown is
	// empty.
	Unknown []string
	// Blocked are the problems of the blocked deletions.
	Blocked []store.Problem

	checks     *Checks
	permission Permission
	released   map[string]bool // names of the existing releases
	blocked    map[string]bool // names of the modules and releases whose deletion was blocked
	releases   int
}

// Begin lists the releases in the cluster, and finds the releases that do not belong to a module of set.
func (c *Checks) Begin(ctx context.Context, set module.Set, p Permission) (*Discovery, error) {
	releases, err := c.options.Helm.List(ctx)
	if err != nil {
		return nil, err
	}
	d := c.Discovery(releases, p)
	return d, d.FindUnknown(ctx, set, releases)
}

// Discovery returns a discovery that has found these releases. Its field Unknown is still empty.
func (c *Checks) Discovery(releases []helm.Summary, p Permission) *Discovery {
	d := &Discovery{checks: c, permission: p, released: map[string]bool{}, blocked: map[string]bool{}, releases: len(releases)}
	for _, r := range releases {
		d.released[r.Name] = true
	}
	return d
}

// Released reports whether the module has a release in the cluster.
func (d *Discovery) Released(module string) bool { return d.released[module] }

// Blocks reports whether a safety check has blocked the deletion of the release.
func (d *Discovery) Blocks(release string) bool { return d.blocked[release] }

// FindUnknown sets d.Unknown to the releases that have no module in set, were not made from addons, and are not the
// operator's own release. It blocks the deletion of releases that were made from addons. If the operator's own release
// cannot be determined, FindUnknown also blocks the deletion of the other releases, and leaves d.Unknown empty.
func (d *Discovery) FindUnknown(ctx context.Context, set module.Set, releases []helm.Summary) error {
	c := d.checks
	var names, addons []string
	for _, r := range releases {
		_, onDisk := set.Find(r.Name)
		switch {
		case onDisk || r.Name == c.options.IgnoreRelease:
		case r.Addon:
			addons = append(addons, r.Name)
		default:
			names = append(names, r.Name)
		}
	}
	if len(addons) > 0 {
		d.block(store.Problem{
			Object: "releases of addons", Error: "releases were made from addons that are not registered any more, so the operator does not know whether the releases are still needed",
			Fix: "register the addons again, or uninstall the releases with helm uninstall",
		}, addons)
	}
	if len(names) == 0 || c.options.Pod == "" {
		d.Unknown = names
		return nil
	}
	own, exists, err := c.options.Kube.ReleaseOf(ctx, c.options.PodNamespace, c.options.Pod, c.options.Namespace)
	return d.leaveOutOwn(names, own, exists, err)
}

// leaveOutOwn sets d.Unknown to names, without the operator's own release. The other arguments are the results of a
// search for the release of the operator's pod: its name, whether the pod exists, and the error of the search. If the
// operator's own release is not known, leaveOutOwn blocks the deletion of all releases in names.
func (d *Discovery) leaveOutOwn(names []string, own string, exists bool, err error) error {
	o := &d.checks.options
	if err == nil && !exists && o.InPod {
		err = fmt.Errorf("namespace %s has no pod %s", o.PodNamespace, o.Pod)
	} else if err != nil && !kube.IsRefused(err) {
		return err
	}
	switch {
	case err == nil:
		d.Unknown = slices.DeleteFunc(names, func(name string) bool { return name == own })
	case o.IgnoreRelease != "":
		d.Unknown = names // the options name the operator's own release
	default:
		d.block(store.Problem{
			Object: "own release", Error: fmt.Sprintf("releases are kept because it is not known which one is the operator's own: %v", err),
			Fix: "set POD_NAME to the name of the operator's pod, let the operator read this pod, or start it with --helm-ignore-release=NAME, the name of its own release. If Helm did not install it, NAME is any name that no release has",
		}, names)
	}
	return nil
}

// A deletion describes the modules or releases that a discovery would delete.
type deletion struct {
	names []string // names of modules, or of releases without a module
	going int      // number of releases that would be deleted
	what  string   // what happens to the releases, such as "purged"
	keep  string   // what a person must do to keep the releases
}

// Purge returns the releases that may be purged: the argument releases, or nil if the safety check blocks their
// deletion.
func (d *Discovery) Purge(releases []string) []string {
	return d.check(deletion{
		releases, len(releases), "purged", "restore or mount the module directories of the releases, then run addon-operator reload",
	})
}

// Delete returns the disabled modules that may be deleted: the argument modules, or nil if the safety check blocks
// their deletion. It makes the check only if no person has written the ConfigMap. Without settings of a person, perhaps
// the ConfigMap was deleted by mistake, and the discovery would delete all modules that the ConfigMap had enabled. A
// hook may have created the ConfigMap again since, with only the section of the hook. The argument going is the number
// of elements of modules that have a release.
func (d *Discovery) Delete(modules []string, going int) []string {
	config := d.checks.config
	switch {
	case d.permission.Configured:
		return modules
	case d.permission.OnlyHooks:
		return d.check(deletion{modules, going, "deleted because only hooks have written " + config.Name(), "write your settings to the ConfigMap"})
	default:
		return d.check(deletion{modules, going, "deleted because there is no " + config.Name(), "create the ConfigMap"})
	}
}

// check returns the names in n if the deletion is allowed. If more than half of all releases would be deleted, and
// neither the options nor a person allow this, it blocks the deletion and returns nil.
func (d *Discovery) check(n deletion) []string {
	if allowed(n.going, d.releases, max(d.checks.options.AllowPurge, d.permission.Allowed.Releases)) {
		return n.names
	}
	d.block(store.Problem{
		Object: n.what, Error: fmt.Sprintf("%d of %d releases would be %s, so the safety check keeps them", n.going, d.releases, n.what),
		Fix: n.keep, Command: []string{"reload", "--allow-purge=" + strconv.Itoa(n.going)},
		Effect: "uninstalls the releases, with all their objects",
	}, n.names)
	return nil
}

// allowed reports whether one discovery may delete some of the releases in the cluster. The argument going is the
// number of releases to delete, and the argument releases is the number of all releases. The deletion is allowed if
// the number of releases to delete is at most half of all releases, or at most the argument most.
func allowed(going, releases, most int) bool {
	return going == 0 || 2*going <= releases || going <= most
}

// mostNamed is the maximum number of releases that a problem names.
const mostNamed = 20

// block adds p to d.Blocked, with names added to its text. It records, logs and reports that the releases in names are
// not deleted.
func (d *Discovery) block(p store.Problem, names []string) {
	for _, name := range names {
		d.blocked[name] = true
	}
	shown := names[:min(len(names), mostNamed)]
	p.Kind = store.BlockedDeletion
	p.Error += ": " + strings.Join(shown, ", ")
	p.More = len(names) - len(shown)
	d.Blocked = append(d.Blocked, p)
	why := p.Error + "; " + p.Fix
	if len(p.Command) > 0 {
		why += "; or run addon-operator " + strings.Join(p.Command, " ") + " in the pod, which " + p.Effect
	}
	d.checks.log.Error().Strs("releases", names).Msg(why)
	d.checks.observer.DeletionBlocked(names, why)
}

// SaveBlocked replaces the saved problems of the safety check by the problems that a discovery has found. If the saved
// permission of a person has the time in the argument allowed, SaveBlocked deletes the permission, because a permission
// is valid only for one discovery.
func SaveBlocked(tx *store.Tx, blocked []store.Problem, allowed time.Time) error {
	if _, err := store.ReplaceProblems(tx, store.BlockedDeletion, blocked); err != nil {
		return err
	}
	permission, ok, err := store.Load[store.AllowedPurge](tx, store.AllowedPurgeKey())
	if ok && err == nil && permission.At.Equal(allowed) {
		tx.Delete(store.AllowedPurgeKey())
	}
	return err
}
