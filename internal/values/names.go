package values

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Global is the key of the global section. No module can have this name.
const Global = "global"

// The suffixes of keys that enable or disable a module, or set its maintenance mode. The key without the suffix is the
// key of the module's section.
const (
	enabledSuffix     = "Enabled"
	maintenanceSuffix = "Maintenance"
)

// Flag returns the key of a module's enabled flag. key is the key of the module's section.
func Flag(key string) string { return key + enabledSuffix }

// Maintenance returns the key of a module's maintenance mode. key is the key of the module's section.
func Maintenance(key string) string { return key + maintenanceSuffix }

// Camel returns the key of the section of the module called name: the kebab-case name in camelCase.
func Camel(name string) string {
	var key strings.Builder
	for i, word := range words(name) {
		word = strings.ToLower(word)
		if i > 0 {
			first, size := utf8.DecodeRuneInString(word)
			word = string(unicode.ToUpper(first)) + word[size:]
		}
		key.WriteString(word)
	}
	return key.String()
}

// Kebab returns the name of the module whose section has this key: the camelCase key in kebab-case.
// It is the inverse of Camel only for names that CheckName accepts.
func Kebab(key string) string {
	return strings.ToLower(strings.Join(words(key), "-"))
}

// CheckName returns an error if a module cannot have this name. The error has a hint for renaming. A valid name
// consists of lower-case letters, digits and dashes, and can be restored from the key of the module's section. This
// key must not have another meaning.
func CheckName(name string) error {
	key := Camel(name)
	switch {
	case name == Global:
		return fmt.Errorf("a module cannot be named %q, because its values would be the global ones: rename it", name)
	case strings.HasSuffix(key, enabledSuffix):
		return fmt.Errorf("a module cannot be named %q, because its values would be under the key %q, which enables or disables module %q: rename it",
			name, key, Kebab(strings.TrimSuffix(key, enabledSuffix)))
	case !plain(name) || Kebab(key) != name || key == "":
		return fmt.Errorf("module name %q is not in kebab-case that can be restored from camelCase: %s", name, renameHint(name))
	}
	return nil
}

// plain reports whether a name consists of lower-case letters, digits and dashes.
func plain(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool {
		return r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}) < 0
}

// renameHint returns a hint for an error text: a valid name similar to name, or the rules for valid names.
func renameHint(name string) string {
	likely := Kebab(Camel(name))
	if likely == "" || likely == name || CheckName(likely) != nil {
		return "use lower-case letters and digits; join words by single dashes; begin each word with a letter"
	}
	return fmt.Sprintf("rename it, to %q for example", likely)
}

// words splits a name in kebab-case or camelCase. A word ends before a dash, underscore, dot or space, and before a
// capital that follows a lower-case letter or a digit. If several capitals are followed by a lower-case letter, the
// last capital begins a word. A digit does not begin a word. So modules named "a1" and "a-1" would have the same key,
// and only the name "a1" can be restored from this key.
func words(name string) []string {
	var (
		found []string
		start int
		runes = []rune(name)
	)
	end := func(at int) {
		if at > start {
			found = append(found, string(runes[start:at]))
		}
		start = at
	}
	for i, r := range runes {
		switch {
		case strings.ContainsRune("-_. ", r):
			end(i)
			start = i + 1
		case i > 0 && unicode.IsUpper(r) && beginsWord(runes, i):
			end(i)
		}
	}
	end(len(runes))
	return found
}

// beginsWord reports whether the capital at i is the first letter of a word.
func beginsWord(runes []rune, i int) bool {
	before := runes[i-1]
	if unicode.IsLower(before) || unicode.IsDigit(before) {
		return true
	}
	return unicode.IsUpper(before) && i+1 < len(runes) && unicode.IsLower(runes[i+1])
}
