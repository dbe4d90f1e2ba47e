// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

const (
	// redacted replaces a password.
	redacted = "[redacted]"
	// tellingBytes is how many bytes at the start of a password are recognized as the password. Servers may truncate
	// what they repeat.
	tellingBytes = 6
)

// spellings returns the forms in which a password may appear in a text: unquoted, quoted once by the server, and quoted
// again by the logger.
func spellings(password string) []string {
	found := []string{password}
	for range 2 {
		for _, text := range slices.Clone(found) {
			for _, quoted := range []string{strconv.Quote(text), strconv.QuoteToASCII(text), asJSON(text, true), asJSON(text, false)} {
				found = append(found, quoted[1:len(quoted)-1])
			}
		}
		slices.Sort(found)
		found = slices.Compact(found)
	}
	return found
}

// asJSON returns the text as a JSON string, with or without the escapes that Go adds for HTML.
func asJSON(text string, forHTML bool) string {
	var written strings.Builder
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(forHTML)
	if err := encoder.Encode(text); err != nil {
		return strconv.Quote(text)
	}
	return strings.TrimSuffix(written.String(), "\n")
}

// cutOut replaces each password, and each truncated one, by [redacted].
func cutOut(text string, spelled []string) string {
	if len(spelled) == 0 {
		return text
	}
	var clean strings.Builder
	for text != "" {
		if found := beginning(text, spelled); found > 0 {
			clean.WriteString(redacted)
			text = text[found:]
			continue
		}
		clean.WriteByte(text[0])
		text = text[1:]
	}
	return clean.String()
}

// beginning returns the length of the password, or of the truncated password, at the start of the text. It is 0 if
// there is none.
func beginning(text string, spelled []string) int {
	longest := 0
	for _, secret := range spelled {
		if n := commonPrefix(text, secret); n >= min(len(secret), tellingBytes) {
			longest = max(longest, n)
		}
	}
	return longest
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
