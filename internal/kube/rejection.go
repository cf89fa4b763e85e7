package kube

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RejectedFields returns why the API server has rejected fields as invalid. Each text has the path of a field and the
// message of the API server. A field can have several texts. The texts omit the value of the field, which can be a
// secret. RejectedFields returns nil if status names no rejected fields.
func RejectedFields(status *metav1.Status) (fields []string) {
	if status.Reason != metav1.StatusReasonInvalid || status.Details == nil {
		return nil
	}
	for _, cause := range status.Details.Causes {
		fields = append(fields, strings.TrimPrefix(cause.Field+": ", ": ")+withoutValue(cause))
	}
	return fields
}

// withoutValue returns the message of a cause without the value that the message quotes. For
// example, it returns "Invalid value: must be a number" for `Invalid value: "x": must be a number`.
// If it cannot find the end of the value, withoutValue omits the rest of the message.
func withoutValue(cause metav1.StatusCause) string {
	what, rest, found := strings.Cut(cause.Message, ": ")
	neverHaveIt := []metav1.CauseType{
		metav1.CauseTypeFieldValueRequired, metav1.CauseTypeForbidden, metav1.CauseTypeTooLong, metav1.CauseTypeTooMany,
	}
	if !found || slices.Contains(neverHaveIt, cause.Type) {
		return cause.Message
	}
	if detail, more := strings.CutPrefix(afterValue(rest), ": "); more {
		return what + ": " + detail
	}
	return what
}

// structured matches the beginning of a list, a map or a struct in JSON or in the syntax of Go. simple matches a
// number, a boolean or null.
var (
	structured = regexp.MustCompile(`^[\w.*&]*[{\[(]`)
	simple     = regexp.MustCompile(`^(?:-?\d[\d.eE+-]*|true|false|null)`)
)

// afterValue returns the part of text after the value at its beginning. The value is in JSON or in the syntax of Go. If
// afterValue cannot find the end of the value, it returns "".
func afterValue(text string) string {
	if !structured.MatchString(text) {
		value, err := strconv.QuotedPrefix(text)
		if err != nil {
			value = simple.FindString(text)
		}
		if value == "" {
			return ""
		}
		return text[len(value):]
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"', '`':
			quoted, err := strconv.QuotedPrefix(text[i:])
			if err != nil {
				return ""
			}
			i += len(quoted) - 1
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			depth--
		case ':':
			if depth == 0 {
				return text[i:]
			}
		}
	}
	return ""
}
