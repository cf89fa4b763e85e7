// Package redact recognizes the names of secrets, and replaces secrets in texts and values by marks such as
// "(redacted)".
package redact

import (
	"encoding/base64"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// Mark replaces a secret.
const Mark = "(redacted)"

// Hashed returns the mark for a secret that has this hash. The argument since is the time of the last change of the
// secret, or zero if the mark must have no time. The hash shows people whether two secrets are equal.
func Hashed(hash string, since time.Time) string {
	if since.IsZero() {
		return "(redacted " + hash + ")"
	}
	return "(redacted " + hash + ", since " + since.UTC().Format("2006-01-02 15:04Z") + ")"
}

// The name of a setting that contains a secret ends in a word such as password or token. If a setting only says where
// a secret is, its name ends in a different word, as in secretName and tokenPath.
var (
	secretName = regexp.MustCompile(`(?i)(pass(word|wd|phrase)?|secret|token|credentials?|api_?-?key|private_?-?key|access_?-?key|secret_?-?key|encryption_?-?key|auth|dockerconfig(json)?|dockercfg|htpasswd|\.key|_key|-key)s?$`)
	publicName = regexp.MustCompile(`(?i)(public_?-?key)s?$`)
	word       = regexp.MustCompile(`[\pL\pN_.-]+`)
)

// Secret reports whether a setting with this name usually contains a secret.
func Secret(name string) bool {
	return secretName.MatchString(name) && !publicName.MatchString(name)
}

const (
	quotedLines = 3
	quotedRunes = 120 // maximum number of characters of each quoted line
)

// pemKey is the end of the name of each kind of private key in PEM.
const pemKey = "PRIVATE KEY"

// encodedBegin is the beginning of each PEM text in base64, and encodedPEM matches such a text.
const encodedBegin = "LS0tLS1CRUdJTi"

var encodedPEM = regexp.MustCompile(encodedBegin + `[A-Za-z0-9+/]*={0,2}`)

// encodesPrivateKey reports whether a match of [encodedPEM], which can be cut off at its end, has a private key.
func encodesPrivateKey(match string) bool {
	const unit = 4 // characters of base64 that can be decoded on their own
	match = strings.TrimRight(match, "=")
	decoded, err := base64.StdEncoding.DecodeString(match[:len(match)/unit*unit])
	return err == nil && beginsPrivateKey(string(decoded))
}

// Beginning returns the first lines of a text, in quotation marks. Errors use it to quote an invalid text. Beginning
// omits everything after the first name of a secret, and everything after the words that begin a private key in PEM. It
// also omits such a key in base64, and everything after it.
func Beginning(text []byte) string {
	const enough = quotedLines * quotedRunes * 4 // bytes
	shown := strings.ToValidUTF8(string(text[:min(len(text), 4*enough)]), "?")
	cut := len(shown) < len(text)
	if beginsPrivateKey(shown) {
		before, _, _ := strings.Cut(shown, pemKey)
		shown, cut = before+pemKey+" "+Mark, false
	}
	for _, at := range encodedPEM.FindAllStringIndex(shown, -1) {
		if encodesPrivateKey(shown[at[0]:at[1]]) {
			shown, cut = shown[:at[0]]+Mark, false
			break
		}
	}
	for _, at := range word.FindAllStringIndex(shown, -1) {
		if Secret(strings.TrimRight(shown[at[0]:at[1]], "._-")) {
			shown, cut = shown[:at[1]]+" "+Mark, false
			break
		}
	}
	var lines []string
	for line := range strings.Lines(shown) {
		line = strings.TrimSpace(strings.Map(printable, line))
		if line == "" {
			continue
		}
		if len(lines) == quotedLines {
			cut = true
			break
		}
		if runes := []rune(line); len(runes) > quotedRunes {
			line = string(runes[:quotedRunes]) + "…"
		}
		lines = append(lines, line)
	}
	if cut {
		lines = append(lines, "…")
	}
	return "“" + strings.Join(lines, "⏎ ") + "”"
}

// secretForms match secrets in a line of text. They recognize a secret by its form, even without a name before it. The
// groups of a match are kept, and the rest of the match is replaced.
var secretForms = []*regexp.Regexp{
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}`), // HTTP authorization
	regexp.MustCompile(`(://[^\s/:@]*:)[^\s/@]+(@)`),                // user and password in a URL
	// the beginning of a password in a URL that is cut off before the host; a port does not match
	regexp.MustCompile(`(://[^\s/:@[]*:)(?:[^\s/@\d]|\d+[^\s/@\d:?#,;.'"\\)\]}>])[^\s/@]*`),
}

// setting matches a name and the separator before its value: an assignment, a field of JSON or
// YAML, or a flag. The quotation marks of JSON can be escaped, because JSON can be inside a string of JSON.
var setting = regexp.MustCompile(`(-{1,2}|\b)([\pL\pN_][\pL\pN_.-]*)(\\*["']?\s*[:=]\s*|\s+)`)

// named matches the content of a field "name" or "path", and everything between it and the value in the field "value",
// as in an environment variable or an operation of a JSON Patch, in JSON, in YAML or in the syntax of Go. namedLine
// matches a line that has only the field "name" or "path", and valueLine matches the beginning of a line with the field
// "value". blockLine matches a field of YAML whose value is in the lines below it.
var (
	named     = regexp.MustCompile(`(?i)\b(?:name|path)\\*["']?\s*[:=]\s*\\*["']?([\pL\pN_./~-]+)\\*["']?\s*,?\s*\\*["']?value\\*["']?\s*[:=]\s*`)
	namedLine = regexp.MustCompile(`(?i)^[\s+-]*["']?(?:name|path)["']?\s*[:=]\s*["']?([\pL\pN_./~-]+)["']?,?\s*$`)
	valueLine = regexp.MustCompile(`(?i)^[\s+-]*["']?value["']?\s*[:=]\s*`)
	blockLine = regexp.MustCompile(`:\s+[|>][-+\d]*\s*$`)
	quote     = regexp.MustCompile(`^\\*["']`)
)

// Text returns text with marks in place of likely secrets. These are likely secrets: the value of an assignment, a
// field or a flag with the name of a secret, up to the end of the line; the field "value" behind a field "name", as in
// an environment variable, if the content of "name" is the name of a secret; the value of a patch whose path names a
// secret; the lines of a block of YAML that is the value of such a field; credentials of HTTP and of URLs; and private
// keys in PEM, also in base64.
func Text(text string) string {
	var out []string
	inKey, isSecret := false, false // isSecret is true if the previous line names a secret whose value can follow
	const none = -1
	block := none // indentation of the field whose value is a hidden block of lines
	for line := range strings.SplitSeq(text, "\n") {
		if block != none && (indentation(line) > block || strings.TrimSpace(line) == "") {
			continue
		}
		block = none
		value := valueLine.FindString(line)
		hidden := isSecret && value != "" && len(value) < len(line)
		name := namedLine.FindStringSubmatch(line)
		isSecret = name != nil && secretPath(name[1])
		switch {
		case inKey:
			inKey = !strings.Contains(line, "-----END ")
		case beginsPrivateKey(line):
			inKey = !strings.Contains(line, "-----END ")
			out = append(out, Mark)
		default:
			shown := value + Mark
			if !hidden {
				shown = redactLine(line)
			}
			out = append(out, shown)
			if shown != line && blockLine.MatchString(line) {
				block = indentation(line)
			}
		}
	}
	return strings.Join(out, "\n")
}

// indentation returns the number of characters before the first field in a line of YAML or of a comparison of such
// lines.
func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t+-")) }

// beginsPrivateKey reports whether a private key in PEM begins in the text.
func beginsPrivateKey(text string) bool {
	return strings.Contains(text, "-----BEGIN ") && strings.Contains(text, pemKey)
}

// hideNamed returns line with marks in place of the values behind the names of secrets, as [named] finds them. If a
// value has no quotation marks, the mark replaces the rest of the line.
func hideNamed(line string) string {
	var out strings.Builder
	for at := named.FindStringSubmatchIndex(line); at != nil; at = named.FindStringSubmatchIndex(line) {
		name, value := line[at[2]:at[3]], line[at[1]:]
		out.WriteString(line[:at[1]])
		line = value
		opening := quote.FindString(value)
		end := quoted(value, opening)
		switch {
		case !secretPath(name) || end == len(opening):
		case opening == "":
			return out.String() + Mark
		default:
			out.WriteString(opening + Mark)
			line = value[end:]
		}
	}
	return out.String() + line
}

// quoted returns the length of the quoted text at the beginning of value. The length includes the opening quotation
// mark, which is the argument opening, but not the closing one. If either mark is missing, quoted returns the length of
// value.
func quoted(value, opening string) int {
	if opening == "" {
		return len(value)
	}
	mark := opening[len(opening)-1]
	for i := len(opening); i < len(value); i++ {
		if value[i] != mark {
			continue
		}
		start := i
		for value[start-1] == '\\' && start > len(opening) {
			start--
		}
		if i-start == len(opening)-1 {
			return start
		}
	}
	return len(value)
}

func redactLine(line string) string {
	line = encodedPEM.ReplaceAllStringFunc(line, func(match string) string {
		if encodesPrivateKey(match) {
			return Mark
		}
		return match
	})
	line = hideNamed(line)
	for _, at := range setting.FindAllStringSubmatchIndex(line, -1) {
		isFlag, name, separator := at[2] < at[3], line[at[4]:at[5]], line[at[6]:at[7]]
		if !Secret(name) || !isFlag && !strings.ContainsAny(separator, ":=") {
			continue
		}
		if at[1] < len(line) {
			line = line[:at[1]] + Mark
		}
		break
	}
	for _, form := range secretForms {
		line = form.ReplaceAllString(line, "${1}"+Mark+"${2}")
	}
	return line
}

// printable returns a blank for a character that is not printable, such as a control character of a terminal, and other
// characters unchanged.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}
