package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// maxRecord is the maximum size in bytes of the stored JSON of an [Addon].
const maxRecord = 2 << 20

// Load reads an addon from its files. Errors that helm-broker also returns have the same texts as there, because
// clients parse them. Load first loads the chart, then reads the other files, and then validates the fields. If one of
// these stages fails, Load does not continue. An error of the validation has all problems that the validation finds.
func Load(fsys fs.FS) (*Loaded, error) {
	r := newReader(fsys, DefaultLimits)
	loaded, err := loadChart(r)
	if err != nil {
		return nil, fmt.Errorf("while loading chart: %w", err)
	}
	f, err := readForm(r)
	if err != nil {
		return nil, fmt.Errorf("while mapping buffered files to form: %w", err)
	}
	if err := f.validate(); err != nil {
		return nil, fmt.Errorf("while validating form: %w", err)
	}
	f.addon.Chart = loaded.Addon.Chart
	if loaded.Addon, err = f.model(); err != nil {
		return nil, fmt.Errorf("while mapping form to model: %w", err)
	}
	return loaded, nil
}

// A form has the fields of an addon as they were read from its files. They are not validated yet, and required fields
// may be missing.
type form struct {
	addon Addon
	// empty is set if meta.yaml has no content.
	empty bool
	// badDocs is set if the list "docs" in docs/meta.yaml does not have exactly one entry.
	badDocs bool
	plans   []planForm
}

func readForm(r *reader) (*form, error) {
	f := &form{}
	if err := f.readMeta(r); err != nil {
		return nil, err
	}
	if err := f.readDocs(r); err != nil {
		return nil, err
	}
	names, err := planNames(r)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		plan, err := readPlan(r, name)
		if err != nil {
			return nil, fmt.Errorf("while unmarshaling plan %q file: %w", name, err)
		}
		f.plans = append(f.plans, plan)
	}
	return f, nil
}

func (f *form) readMeta(r *reader) error {
	text, err := r.read("meta.yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New(noMeta)
	}
	if err != nil {
		return err
	}
	meta, err := parseFields(text)
	if err == nil && meta != nil {
		f.addon = addonFields(meta)
		err = meta.err()
	}
	if err != nil {
		return fmt.Errorf("while unmarshaling addon %q file: %w", "meta.yaml", err)
	}
	f.empty = meta == nil
	return nil
}

const noMeta = `missing metadata information about addon, please check if addon contains "meta.yaml" file`

func addonFields(meta *fields) Addon {
	tags := strings.Split(meta.text("tags"), ",")
	for i, tag := range tags {
		tags[i] = strings.TrimSpace(tag)
	}
	return Addon{
		ID:                  meta.text("id"),
		Name:                meta.text("name"),
		Version:             meta.text("version"),
		Description:         meta.text("description"),
		DisplayName:         meta.text("displayName"),
		Tags:                tags,
		Bindable:            meta.bool("bindable"),
		BindingsRetrievable: meta.bool("bindingsRetrievable"),
		PlanUpdatable:       meta.tristate("planUpdatable"),
		Requires:            meta.texts("requires"),
		ProviderDisplayName: meta.text("providerDisplayName"),
		LongDescription:     meta.text("longDescription"),
		DocumentationURL:    meta.text("documentationURL"),
		SupportURL:          meta.text("supportURL"),
		ImageURL:            meta.text("imageURL"),
		ProvisionOnlyOnce:   meta.bool("provisionOnlyOnce"),
		Labels:              meta.textMap("labels"),
	}
}

func (f *form) readDocs(r *reader) error {
	const name = "docs/meta.yaml"
	text, err := r.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	meta, err := parseFields(text)
	if err != nil {
		return fmt.Errorf("while unmarshaling addon %q file: %w", name, err)
	}
	if meta == nil {
		return nil
	}
	list, isList := field(meta.of, "docs").([]any)
	if !isList && field(meta.of, "docs") != nil {
		meta.wrong("docs", "a list", field(meta.of, "docs"))
		return fmt.Errorf("while unmarshaling addon %q file: %w", name, meta.err())
	}
	f.badDocs = len(list) != 1
	f.addon.Docs, err = json.Marshal(meta.of)
	return err
}

// validate returns one error with the texts of all problems of the form, separated by commas. validate returns nil if
// there are none.
func (f *form) validate() error {
	var wrong []string
	if f.empty {
		wrong = append(wrong, noMeta)
	}
	if len(f.plans) == 0 {
		wrong = append(wrong, "addon does not contains any plans")
	}
	for i := range f.plans {
		if err := f.plans[i].validate(); err != nil {
			wrong = append(wrong, fmt.Sprintf("while validating %q plan: %v", f.plans[i].Directory, err))
		}
	}
	wrong = append(wrong, f.duplicatePlans()...)
	if missing := f.missing(); !f.empty && len(missing) > 0 {
		wrong = append(wrong, "while validating addon meta: "+strings.Join(missing, ", "))
	}
	if f.badDocs {
		wrong = append(wrong, "while validating addon docs meta: docs array should have at most one entry")
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, ", "))
}

func (f *form) missing() []string {
	var missing []string
	for _, required := range []struct{ name, value string }{
		{"ID field", f.addon.ID},
		{"Name field", f.addon.Name},
		{"Version field", f.addon.Version},
		{"Description field", f.addon.Description},
		{"displayName field", f.addon.DisplayName},
	} {
		if required.value == "" {
			missing = append(missing, "missing "+required.name)
		}
	}
	return missing
}

func (f *form) duplicatePlans() (wrong []string) {
	byID := map[string]string{}
	for i := range f.plans {
		plan := &f.plans[i]
		if plan.ID == "" {
			continue
		}
		if earlier, taken := byID[plan.ID]; taken {
			wrong = append(wrong, fmt.Sprintf("plans %q and %q have the same ID %q", earlier, plan.Directory, plan.ID))
			continue
		}
		byID[plan.ID] = plan.Directory
	}
	return wrong
}

func (f *form) model() (Addon, error) {
	if _, err := parseVersion(f.addon.Version); err != nil {
		return Addon{}, errors.New("while converting form string version to semver type: Invalid Semantic Version")
	}
	for i := range f.plans {
		f.addon.Plans = append(f.addon.Plans, f.plans[i].Plan)
	}
	record, err := json.Marshal(f.addon)
	if err != nil {
		return Addon{}, err
	}
	if len(record) > maxRecord {
		return Addon{}, fmt.Errorf("metadata, plans and schemas have %d bytes together, more than the limit of %d", len(record), maxRecord)
	}
	return f.addon, nil
}
