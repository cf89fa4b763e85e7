package tree

import (
	"errors"

	goyaml "go.yaml.in/yaml/v2"
)

// strict is a value of a YAML text in which only true and false are booleans. The field value has the Go types of the
// YAML parser. Without strict, the parser decodes words such as yes and off as booleans, too.
type strict struct{ value any }

// UnmarshalYAML implements yaml.Unmarshaler. The parser does not say which kind of value it decodes, so UnmarshalYAML
// tries a scalar, then a map, and then a list. Most values are scalars. The parser counts each try when it limits
// aliases.
func (s *strict) UnmarshalYAML(decode func(any) error) (err error) {
	if s.value, err = wordOr(decode); !isMismatch(err) {
		return err
	}
	var entries map[strictKey]strict
	if err = decode(&entries); err == nil {
		return s.setMap(entries)
	}
	if !isMismatch(err) {
		return err
	}
	var items []strict
	if err = decode(&items); err == nil {
		s.setList(items)
	}
	return err
}

// UnmarshalText implements encoding.TextUnmarshaler. For the texts "null" and "~" in quotes, the parser calls it in
// place of UnmarshalYAML.
func (s *strict) UnmarshalText(word []byte) error {
	s.value = string(word)
	return nil
}

// isMismatch reports whether err means that the parser has decoded another kind of value than it should.
func isMismatch(err error) bool { return errors.As(err, new(*goyaml.TypeError)) }

// setMap sets the value to a map. If entries is nil, the parser has decoded a null.
func (s *strict) setMap(entries map[strictKey]strict) error {
	if entries == nil {
		return nil
	}
	m := make(map[any]any, len(entries))
	for key, entry := range entries {
		if !key.given {
			return errKey
		}
		m[key.name] = entry.value
	}
	s.value = m
	return nil
}

func (s *strict) setList(items []strict) {
	list := make([]any, len(items))
	for i, item := range items {
		list[i] = item.value
	}
	s.value = list
}

// wordOr decodes a scalar. If the scalar is a word that YAML 1.1 treats as a boolean, and is neither true nor false,
// wordOr returns the word. For a map or a list, wordOr returns an error for which [isMismatch] returns true.
func wordOr(decode func(any) error) (scalar any, err error) {
	var word string
	if err := decode(&word); err != nil {
		return nil, err
	}
	if err := decode(&scalar); err != nil {
		return nil, err
	}
	if _, isBool := scalar.(bool); !isBool {
		return scalar, nil
	}
	switch word {
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return scalar, nil
	default:
		return word, nil
	}
}

// strictKey is a key of a map in a text that is decoded to a strict. The parser does not decode a null key, so the
// field given of a null key is false.
type strictKey struct {
	name  string
	given bool
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (k *strictKey) UnmarshalYAML(decode func(any) error) error {
	key, err := wordOr(decode)
	switch {
	case isMismatch(err):
		return errKey
	case err != nil:
		return err
	}
	k.given = true
	k.name, err = keyText(key)
	return err
}

// UnmarshalText implements encoding.TextUnmarshaler. The parser calls it for the same texts as the UnmarshalText of
// strict.
func (k *strictKey) UnmarshalText(word []byte) error {
	k.name, k.given = string(word), true
	return nil
}
