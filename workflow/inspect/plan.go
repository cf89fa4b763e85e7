package inspect

import "slices"

// A Plan describes what a converge would do.
type Plan struct {
	// Changes is set if the converge would change something.
	Changes bool       `json:"changes"`
	Counts  PlanCounts `json:"counts"`
	// Basis names the data from which the plan was made.
	Basis string `json:"basis"`
	// Limits has one sentence for each thing that the plan could not compute.
	Limits []string `json:"limits,omitempty"`
	// Problems has one sentence for each problem that prevents the converge from doing something,
	// such as a blocked deletion.
	Problems []string `json:"problems,omitempty"`
	// Values has the global values that would change.
	Values []FieldChange `json:"values,omitempty"`
	// Hooks are the global hooks that would run.
	Hooks   []PlanHook   `json:"hooks,omitempty"`
	Modules []PlanModule `json:"modules"`
}

// PlanCounts are the numbers of changes in a plan.
type PlanCounts struct {
	On         int `json:"on"`
	Off        int `json:"off"`
	Purged     int `json:"purged"`
	Upgraded   int `json:"upgraded"` // number of releases that get a new revision
	Created    int `json:"created"`
	Changed    int `json:"changed"`
	Deleted    int `json:"deleted"`
	HandedOver int `json:"handedOver"`
}

// A PlanModule describes what a converge would do with one module, or with a release without a
// module.
type PlanModule struct {
	Name string `json:"name"`
	// Action is on, off, purge (a release without a module), run, or none (a module that is neither run nor deleted).
	Action PlanAction `json:"action"`
	// Why is the reason why the module is enabled or disabled.
	Why string `json:"why,omitempty"`
	// Error is the reason why the module would fail. The steps after the failure are not planned.
	Error string `json:"error,omitempty"`
	// Release is the reason why the release would be installed or upgraded, or says that it would be deleted.
	Release string `json:"release,omitempty"`
	// Revision is the number of the new revision; 0 if there would be none.
	Revision int           `json:"revision,omitempty"`
	Values   []FieldChange `json:"values,omitempty"`
	// CRDs has the CustomResourceDefinitions of the module that would be created or changed.
	CRDs    []PlanObject `json:"crds,omitempty"`
	Objects []PlanObject `json:"objects,omitempty"`
	// Hooks has the hooks that would run. HelmHooks has the objects of the Helm hooks that would run.
	Hooks     []PlanHook   `json:"hooks,omitempty"`
	HelmHooks []PlanObject `json:"helmHooks,omitempty"`
}

// A PlanAction is the action of a converge on a module, or on a release without a module.
type PlanAction string

// Actions of a plan.
const (
	PlanOn    PlanAction = "on"
	PlanOff   PlanAction = "off"
	PlanPurge PlanAction = "purge"
	PlanRun   PlanAction = "run"
	PlanNone  PlanAction = "none"
)

// A PlanHook is a hook that would run.
type PlanHook struct {
	Name string `json:"name"`
	// Binding is the kind of binding, such as beforeHelm.
	Binding string `json:"binding"`
}

// A PlanObject describes the change of one object.
type PlanObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Action is created, changed, deleted or handed over; empty for a Helm hook.
	Action string `json:"action,omitempty"`
	// From is the release that owns an object before the object is handed over.
	From   string        `json:"from,omitempty"`
	Fields []FieldChange `json:"fields,omitempty"`
	// Note is the reason why the API server did not check the object.
	Note string `json:"note,omitempty"`
}

// Actions on objects.
const (
	ObjectCreated    = "created"
	ObjectChanged    = "changed"
	ObjectDeleted    = "deleted"
	ObjectHandedOver = "handed over"
)

func (o PlanObject) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// A FieldChange is one field that would change. Old is nil if the converge would add the field, and
// New is nil if the converge would remove the field.
type FieldChange struct {
	Path string `json:"path"`
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`
}

// Count sets p.Counts and p.Changes.
func (p *Plan) Count() {
	c := PlanCounts{}
	changes := len(p.Values) > 0
	for _, m := range p.Modules {
		switch m.Action {
		case PlanOn:
			c.On++
		case PlanOff:
			c.Off++
		case PlanPurge:
			c.Purged++
		case PlanRun, PlanNone: // these actions have no count
		}
		if m.Revision > 0 {
			c.Upgraded++
		}
		changes = changes || len(m.Values) > 0
		for _, o := range slices.Concat(m.CRDs, m.Objects) {
			c.count(o)
		}
	}
	p.Counts, p.Changes = c, changes || c != PlanCounts{}
}

func (c *PlanCounts) count(o PlanObject) {
	switch o.Action {
	case ObjectCreated:
		c.Created++
	case ObjectChanged:
		c.Changed++
	case ObjectDeleted:
		c.Deleted++
	case ObjectHandedOver:
		c.HandedOver++
	}
}

// Failed reports whether a module would fail. If a module would fail, the plan is incomplete.
func (p *Plan) Failed() bool {
	return slices.ContainsFunc(p.Modules, func(m PlanModule) bool { return m.Error != "" })
}

// changes reports whether the converge would change anything for m, or whether m would fail.
func (m *PlanModule) changes() bool {
	return m.Action == PlanOn || m.Action == PlanOff || m.Action == PlanPurge ||
		m.Error != "" || m.Revision > 0 || len(m.Values)+len(m.CRDs)+len(m.Objects) > 0
}
