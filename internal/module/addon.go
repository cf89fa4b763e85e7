package module

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"addon-operator/internal/text"
	"addon-operator/internal/values"
)

// The directory of a module that was made from an addon contains four parts: the file addonFile, a values file, the
// schema of the section in the directory schemaDir, and the addon's chart in the directory addonChartDir.
const (
	addonFile     = ".addon.json"
	addonChartDir = "chart"
)

// The values of these keys in the section of a module select the plan and the version of the addon. The keys are not
// passed to the chart.
const (
	PlanKey         = "plan"
	AddonVersionKey = "addonVersion"
)

// An Addon describes the registered addon that a module is made from. A module that is made from an addon has no
// hooks. An addon has plans, each a named set of values for the chart.
type Addon struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Version string `json:"version"`
	// Content is the name of the addon's content in the registry. The name includes a digest of the files of the addon.
	Content string `json:"content"`
	// Plans are sorted by name.
	Plans []AddonPlan `json:"plans"`
}

// An AddonPlan is one plan of an addon.
type AddonPlan struct {
	Name string `json:"name"`
	// Values override the values of the chart. The section of the module overrides Values.
	Values map[string]any `json:"values,omitempty"`
	// Schema is a JSON schema for the section of the module, without the keys plan and addonVersion; nil if there is
	// none.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// String returns "addon", the name and the version, for messages.
func (a *Addon) String() string { return "addon " + a.Name + " " + a.Version }

// Title returns a text that identifies the module in messages: its addon, or otherwise its directory. Users know an
// addon by its name and version, not by the directory that the operator writes.
func (m *Module) Title() string {
	if m.Addon != nil {
		return m.Addon.String() + " of module " + m.Name
	}
	return "module directory " + m.Path
}

// An addonError is an error about files of an addon, with a text that names the addon.
type addonError struct {
	error

	text string
}

func (e *addonError) Error() string { return e.text }
func (e *addonError) Unwrap() error { return e.error }

// NameFiles returns err with another text: each path of a file of the addon is replaced by the name and version of the
// addon, and the path of the file in the addon. If the module is not made from an addon, NameFiles returns err
// unchanged.
func (m *Module) NameFiles(err error) error {
	if err == nil || m.Addon == nil {
		return err
	}
	named := strings.NewReplacer(
		m.ChartDir()+string(filepath.Separator), m.Addon.String()+", file ", m.ChartDir(), m.Addon.String(),
		m.Path+string(filepath.Separator), m.Addon.String()+", file ", m.Path, m.Addon.String(),
	)
	return &addonError{err, named.Replace(err.Error())}
}

// ChartDir returns the directory of the module's chart.
func (m *Module) ChartDir() string {
	if m.Addon != nil {
		return filepath.Join(m.Path, addonChartDir)
	}
	return m.Path
}

// findAddon sets m.Addon, m.FromAddon, m.Chart and m.CRDs from the files in the module's directory if the module is
// made from an addon. Otherwise it does nothing.
func (m *Module) findAddon() error {
	path := filepath.Join(m.Path, addonFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the addon of the module: %w", err)
	}
	var a Addon
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("%s is not the description of an addon: %w; remove the directory: the operator writes it again", path, err)
	}
	if m.Chart, err = FindChart(filepath.Join(m.Path, addonChartDir)); err != nil {
		return err
	}
	if m.Chart != FullChart {
		return fmt.Errorf("%s contains no chart: remove the directory; the operator writes it again", m.Path)
	}
	crds := filepath.Join(m.Path, addonChartDir, crdsDir)
	if info, err := os.Stat(crds); err == nil && info.IsDir() {
		m.CRDs = crds
	}
	m.Addon, m.FromAddon = &a, true
	return nil
}

// HelmValues returns the values for the chart of an addon: the values of the plan that section names, overridden by
// the rest of section. If section names no plan, HelmValues uses the first plan by name. It returns an error if the
// plan does not exist, or if the schema of the plan rejects the rest of section. It does not change section.
func (a *Addon) HelmValues(section map[string]any) (map[string]any, error) {
	plan, err := a.plan(section[PlanKey])
	if err != nil {
		return nil, err
	}
	own := maps.Clone(section)
	delete(own, PlanKey)
	delete(own, AddonVersionKey)
	if err := plan.check(own); err != nil {
		return nil, fmt.Errorf("values for plan %q of addon %s %s: %w", plan.Name, a.Name, a.Version, err)
	}
	return values.Merge(plan.Values, own), nil
}

// Plan returns the name of the plan that section names, even if the addon has no such plan. If section names no plan,
// Plan returns the first plan by name. byDefault is true if section names no plan although the addon has several
// plans.
func (a *Addon) Plan(section map[string]any) (name string, byDefault bool) {
	plan, err := a.plan(section[PlanKey])
	if err != nil {
		return fmt.Sprint(section[PlanKey]), false
	}
	return plan.Name, section[PlanKey] == nil && len(a.Plans) > 1
}

func (a *Addon) plan(name any) (*AddonPlan, error) {
	if len(a.Plans) == 0 {
		return nil, fmt.Errorf("addon %s %s has no plans", a.Name, a.Version)
	}
	if name == nil {
		return &a.Plans[0], nil
	}
	i := slices.IndexFunc(a.Plans, func(p AddonPlan) bool { return p.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("addon %s %s has no plan %q: set %s to one of %s", a.Name, a.Version, fmt.Sprint(name), PlanKey, strings.Join(a.PlanNames(), ", "))
	}
	return &a.Plans[i], nil
}

// PlanNames returns the names of the plans.
func (a *Addon) PlanNames() []string {
	names := make([]string, len(a.Plans))
	for i, p := range a.Plans {
		names[i] = p.Name
	}
	return names
}

// CheckValues returns a description of each value of the plan that the schema of the plan rejects. Such a value is a
// mistake, because users who set the same value in the section of the module get an error. Missing and unknown values
// are accepted, because the schema is meant only for values that users set. CheckValues returns an error if the schema
// cannot be used.
func (p *AddonPlan) CheckValues() (refused []string, err error) {
	invalid, err := p.validate(p.Values)
	if invalid == nil {
		return nil, err
	}
	return violations(invalid, true), err
}

// check returns an error if the schema of the plan rejects section, or if the schema cannot be used.
func (p *AddonPlan) check(section map[string]any) error {
	invalid, err := p.validate(section)
	if invalid == nil {
		return err
	}
	return errors.New(strings.Join(violations(invalid, false), "; "))
}

// validate checks values against the schema of the plan. invalid is nil if the schema accepts values, or if the plan
// has no schema. err is not nil if the schema cannot be used.
func (p *AddonPlan) validate(values map[string]any) (invalid *jsonschema.ValidationError, err error) {
	if p.Schema == nil {
		return nil, nil
	}
	defer func() {
		if r := recover(); r != nil { // the jsonschema library panics on numbers such as 1e-9999999
			err = fmt.Errorf("the schema cannot be used: %v", r)
		}
	}()
	schema, err := compileSchema(p.Schema)
	if err != nil {
		return nil, err
	}
	if err := schema.Validate(values); err != nil && !errors.As(err, &invalid) {
		return nil, err
	}
	return invalid, nil
}

// compileSchema compiles a JSON schema. References to other documents are errors.
func compileSchema(text []byte) (*jsonschema.Schema, error) {
	const url = "mem:///create-instance-schema.json"
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(url, document); err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w", err)
	}
	schema, err := compiler.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w", err)
	}
	return schema, nil
}

// noLoader returns an error for each schema that is not in the compiled document.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %s: only references within the schema are supported", url)
}

// violations returns one text for each innermost cause in the tree of causes of err. The texts contain no values of the
// section, because they can be secret. If presentOnly is true, violations leaves out causes that can disappear if other
// values are set.
func violations(err *jsonschema.ValidationError, presentOnly bool) []string {
	if presentOnly && dependsOnOthers(err.ErrorKind) {
		return nil
	}
	if len(err.Causes) == 0 {
		at := strings.Join(err.InstanceLocation, ".")
		if at == "" {
			at = "the section"
		}
		return []string{at + ": " + violation(err.ErrorKind)}
	}
	var all []string
	for _, cause := range err.Causes {
		all = append(all, violations(cause, presentOnly)...)
	}
	return all
}

// dependsOnOthers reports whether a violation of this kind can appear or disappear if other values are set.
func dependsOnOthers(what jsonschema.ErrorKind) bool {
	switch what.(type) {
	case *kind.Required, *kind.DependentRequired, *kind.Dependency, *kind.MinProperties, *kind.MaxProperties,
		*kind.AdditionalProperties, *kind.FalseSchema, *kind.AnyOf, *kind.OneOf, *kind.Not:
		return true
	}
	return false
}

func violation(what jsonschema.ErrorKind) string {
	switch what := what.(type) {
	case *kind.Pattern:
		return "does not match the pattern " + what.Want
	case *kind.Format:
		return "is not a valid " + what.Want
	case *kind.Minimum:
		return "minimum: must be at least " + number(what.Want)
	case *kind.ExclusiveMinimum:
		return "exclusiveMinimum: must be more than " + number(what.Want)
	case *kind.Maximum:
		return "maximum: must be at most " + number(what.Want)
	case *kind.ExclusiveMaximum:
		return "exclusiveMaximum: must be less than " + number(what.Want)
	case *kind.MultipleOf:
		return "multipleOf: must be a multiple of " + number(what.Want)
	case *kind.MinLength:
		return "minLength: must have at least " + text.Count(what.Want, "character", "characters")
	case *kind.MaxLength:
		return "maxLength: must have at most " + text.Count(what.Want, "character", "characters")
	default:
		return what.LocalizedString(message.NewPrinter(language.English))
	}
}

// number returns n in decimal notation.
func number(n *big.Rat) string {
	f, _ := n.Float64()
	return strconv.FormatFloat(f, 'f', -1, 64)
}
