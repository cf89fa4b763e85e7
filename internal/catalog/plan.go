package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"addon-operator/internal/tree"
)

// maxSchema is the size limit of a schema file and of .helmignore in bytes. A schema file of exactly this size is
// rejected.
const maxSchema = 64 << 10

// A planForm has the fields of a plan as they were read from its files. They are not validated yet, and required
// fields may be missing.
type planForm struct {
	Plan

	// empty is set if meta.yaml has no content.
	empty bool
	// hasBind is set if bind.yaml exists, even if it is empty.
	hasBind bool
}

// planNames returns the names of the directories in plans/, sorted.
func planNames(r *reader) ([]string, error) {
	infos, err := r.list("plans")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New(`addon does not contains any plans, please check if addon contains "plans" directory`)
	}
	var names []string
	for _, info := range infos {
		if info.IsDir() {
			names = append(names, info.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

func readPlan(r *reader, name string) (planForm, error) {
	plan := planForm{Plan: Plan{Directory: name}}
	dir := path.Join("plans", name)
	if err := plan.readMeta(r, dir); err != nil {
		return plan, err
	}
	if err := plan.readValues(r, dir); err != nil {
		return plan, fmt.Errorf("while loading plan values: %w", err)
	}
	for _, schema := range []struct {
		file string
		to   *json.RawMessage
	}{
		{"create-instance-schema.json", &plan.CreateSchema},
		{"update-instance-schema.json", &plan.UpdateSchema},
		{"bind-instance-schema.json", &plan.BindSchema},
	} {
		text, err := readSchema(r, dir, schema.file)
		if err != nil {
			return plan, err
		}
		*schema.to = text
	}
	bind, err := r.read(path.Join(dir, "bind.yaml"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return plan, err
	}
	plan.Bind, plan.hasBind = bind, err == nil
	return plan, nil
}

func (p *planForm) readMeta(r *reader, dir string) error {
	text, err := r.read(path.Join(dir, "meta.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New(`"meta.yaml" is required but is not present`)
	}
	if err != nil {
		return err
	}
	meta, err := parseFields(text)
	if meta == nil || err != nil {
		p.empty = true
		return err
	}
	p.ID, p.Name = meta.text("id"), meta.text("name")
	p.Description, p.DisplayName = meta.text("description"), meta.text("displayName")
	p.Bindable, p.Free = meta.tristate("bindable"), meta.tristate("free")
	return meta.err()
}

func (p *planForm) readValues(r *reader, dir string) error {
	text, err := r.read(path.Join(dir, "values.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	values, err := parseFields(text)
	if values == nil || err != nil {
		return err
	}
	p.Values, err = json.Marshal(values.of)
	return err
}

// readSchema returns the text of the JSON schema in file. readSchema returns nil if the file does not exist, and an
// error if the text is not a JSON object.
func readSchema(r *reader, dir, file string) (json.RawMessage, error) {
	name := path.Join(dir, file)
	if r.size(name) >= maxSchema {
		return nil, fmt.Errorf("schema %s is larger than 64 kB", file)
	}
	text, err := r.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var schema any
	err = json.Unmarshal(text, &schema)
	if _, isObject := schema.(map[string]any); err == nil && !isObject {
		err = fmt.Errorf("%s must be a JSON object (got %s)", file, tree.Kind(schema))
	}
	if err != nil {
		return nil, fmt.Errorf("while loading plan shcema: %w", err) // the misspelled word must stay, because clients parse the message
	}
	return text, nil
}

func (p *planForm) validate() error {
	if p.empty {
		return errors.New(`missing metadata information about plan. Please check if plan contains "meta.yaml" file`)
	}
	var wrong []string
	if p.Bindable != nil && *p.Bindable && !p.hasBind {
		wrong = append(wrong, "plans is marked as bindable but bind.yaml file was not found in plan "+p.Name)
	}
	var missing []string
	for _, required := range []struct{ name, value string }{
		{"ID field", p.ID}, {"Name field", p.Name}, {"Description field", p.Description}, {"displayName field", p.DisplayName},
	} {
		if required.value == "" {
			missing = append(missing, "missing "+required.name)
		}
	}
	if len(missing) > 0 {
		wrong = append(wrong, "while validating plan meta: "+strings.Join(missing, ", "))
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, ", "))
}
