package values

import (
	"errors"
	"fmt"
	"slices"

	"addon-operator/internal/schema"
)

// CheckConfig returns an error if section is not valid in the ConfigMap. A nil section is treated as empty. The error
// names the file of the schema and the keys that violate it.
//
// CheckConfig first validates the section alone, with the defaults of the schema. If the schema rejects it, CheckConfig
// also validates the section merged over the values files, and accepts the section if the schema accepts the merged
// one. The reason is that the document VALUES of flant/addon-operator describes one of these two validations, and the
// code of flant/addon-operator does the other.
//
// For rules that compare old and new values, the section in l.Config is the old value.
func (l Layers) CheckConfig(key string, section any) error {
	s := l.schemas(key).Config
	if s == nil {
		return nil
	}
	var old any
	if before, mentioned := l.Config.Section(key); mentioned {
		old = over(s, Values{}, key, before)
	}
	found := s.Check(key, over(s, Values{}, key, section), old)
	if _, stands := l.Static[key]; len(found) > 0 && stands {
		found = l.checkOverFiles(key, section, old)
	}
	return refuse(s, "the content of the ConfigMap", found)
}

// checkOverFiles validates config, which is a section of the ConfigMap, merged over the values files, with the schema
// for the ConfigMap. This schema need not know the keys of values files that users cannot set. So if there is a schema
// for values, which validates these keys, checkOverFiles ignores unknown keys of the values files, and evaluates the
// rules nevertheless.
func (l Layers) checkOverFiles(key string, config, old any) schema.Violations {
	schemas := l.schemas(key)
	s := schemas.Config
	merged := over(s, l.Static, key, config)
	found := s.Check(key, merged, old)
	if schemas.Values == nil || len(found) == 0 {
		return found
	}
	alone := s.Check(key, over(s, Values{}, key, config), old)
	found = slices.DeleteFunc(found, func(v schema.Violation) bool { return v.Rule == schema.UnknownKey && !slices.Contains(alone, v) })
	if len(found) > 0 {
		return found
	}
	return s.CheckRules(key, merged, old)
}

// over returns config, which is a section of the ConfigMap, merged over the same section in static, with the defaults
// of schema s.
func over(s *schema.Schema, static Values, key string, config any) any {
	low := Values{key: s.Default(orEmpty(static[key]))}
	return s.Default(Merge(low, Values{key: orEmpty(config)})[key])
}

// CheckFiles returns an error in two cases: the schema for the ConfigMap rejects the values of the section in the
// values files and the ConfigMap, or the schema for values rejects the merged values. The merged values also contain
// the saved operations. While CheckFiles returns an error for the section of a module, the module does not run, unless
// it has already run in this start of the operator.
//
// A value that only the schema for values requires may be missing, because a hook can set it. It is missing in each
// first start, because no hook has run before.
func (l Layers) CheckFiles(key string) error {
	schemas := l.schemas(key)
	if schemas.Config != nil {
		found := l.checkOverFiles(key, l.Config.Sections[key], nil)
		if err := refuse(schemas.Config, "the values in values.yaml and the ConfigMap", found); err != nil {
			return err
		}
	}
	if schemas.Values == nil {
		return nil
	}
	section, _ := l.Section(key)
	return refuseMerged(schemas.Values, schemas.Values.Check(key, section, nil).WithoutMissing())
}

// CheckMerged returns an error if the schema of a section rejects its merged values, the argument section. The argument
// old is the old value for rules that compare old and new values; nil means that there is no old value.
func (l Layers) CheckMerged(key string, section, old any) error {
	s := l.schemas(key).Values
	if s == nil {
		return nil
	}
	return refuseMerged(s, s.Check(key, section, old))
}

// refuseMerged is like refuse, for merged values.
func refuseMerged(s *schema.Schema, found schema.Violations) error {
	return refuse(s, "the merged values", found)
}

// CheckHelm returns an error if the schemas for Helm reject the merged values of the section or the global values,
// for example because a value that the chart requires is missing. The error says who can set a missing value.
func (l Layers) CheckHelm(key string) error {
	var errs []error
	for _, key := range []string{Global, key} {
		schemas := l.schemas(key)
		if schemas.Helm == nil {
			continue
		}
		section, _ := l.Section(key)
		found := schemas.Helm.Check(key, section, nil)
		for i, v := range found {
			if v.Rule == schema.Required {
				found[i].Text += ": " + whoSets(schemas, key, v.Path)
			}
		}
		errs = append(errs, refuse(schemas.Helm, "the values for Helm", found))
	}
	return errors.Join(errs...)
}

// whoSets returns a text that says who can set the value at a path.
func whoSets(schemas *schema.Set, key, path string) string {
	who := "a hook of the module sets it by its values patch, in beforeHelm for example"
	if key == Global {
		who = "a global hook sets it by its values patch, in beforeAll for example"
	}
	if schemas.Config == nil || schemas.Config.Names(path) {
		return fmt.Sprintf("set it in the ConfigMap under %q, or %s", key, who)
	}
	return who
}

// refuse returns an error that lists the violations found and names the file of the schema. If found is empty, refuse
// returns nil.
func refuse(s *schema.Schema, what string, found schema.Violations) error {
	err := found.Err()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s rejects %s: %w", s.File(), what, err)
}

// Unfit returns the saved operations that cause violations of the section's schema. An operation can cause violations
// if the schema was changed after the operation was saved. An operation is returned only if its removal, alone or
// together with all other operations, reduces the violations, or if a required value becomes missing instead of wrong.
// Two operations on the same path together replace a list element, so Unfit returns both or none of them.
func (l Layers) Unfit(key string) (unfit []Saved) {
	s := l.schemas(key).Values
	if s == nil || len(l.Saved[key]) == 0 {
		return nil
	}
	wrong := func(saved []Saved) int {
		l.Saved = map[string][]Saved{key: saved}
		section, _ := l.Section(key)
		return weight(s.Check(key, section, nil))
	}
	kept := slices.Clone(l.Saved[key])
	now := wrong(kept)
	// The operations on children come first, so that an operation on their parent is kept if it causes no violation.
	for end := len(kept); end > 0 && now > 0; {
		i := end - 1
		if i > 0 && kept[i-1].Path == kept[i].Path {
			i--
		}
		left := slices.Delete(slices.Clone(kept), i, end)
		if n := wrong(left); n < now {
			unfit, kept, now = append(unfit, kept[i:end]...), left, n
		}
		end = i
	}
	if now > 0 && wrong(nil) < now {
		unfit = append(unfit, kept...)
	}
	slices.SortStableFunc(unfit, bySavedPath)
	return unfit
}

// weight returns the sum of the weights of the violations. A violated rule has the smallest weight, because rules are
// evaluated only if there are no other violations. So the sum decreases if a violated rule appears in place of
// another violation. A missing value has a smaller weight than a wrong one, because a hook can set a missing value.
func weight(found schema.Violations) (w int) {
	wrong := found.WithoutMissing()
	w = 1000 * (len(found) - len(wrong))
	for _, v := range wrong {
		if w++; v.Rule != schema.Rules {
			w += 1000 * 1000
		}
	}
	return w
}
