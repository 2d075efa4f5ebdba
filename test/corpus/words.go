// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"math/rand/v2"
	"strings"
)

// vocabulary has words that look like words, the short ones first, as in
// languages.
var vocabulary = func() []string {
	onsets := []string{
		"b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "pl", "gr", "sh", "ch", "br",
	}
	vowels := []string{"a", "e", "i", "o", "u", "ai", "ea", "ou", "ie"}
	codas := []string{"", "", "", "n", "r", "s", "t", "l", "m", "nd", "st", "ck"}
	r := seeded(1)
	seen := map[string]bool{}
	words := make([]string, 0, 3000)
	for len(words) < cap(words) {
		var w strings.Builder
		for range 1 + len(words)/600 {
			w.WriteString(onsets[r.IntN(len(onsets))] + vowels[r.IntN(len(vowels))] + codas[r.IntN(len(codas))])
		}
		if !seen[w.String()] {
			seen[w.String()] = true
			words = append(words, w.String())
		}
	}
	return words
}()

func word(r *rand.Rand) string { return vocabulary[skewed(r, len(vocabulary))] }

func phrase(r *rand.Rand, words int) string {
	var b strings.Builder
	for i := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word(r))
	}
	return b.String()
}

// name returns a proper name of two words.
func name(r *rand.Rand) string {
	first, second := vocabulary[300+skewed(r, 700)], vocabulary[1000+skewed(r, 2000)]
	return strings.ToUpper(first[:1]) + first[1:] + " " + strings.ToUpper(second[:1]) + second[1:]
}

// iban returns an account number. There are 20000 customers, some of which occur
// often.
func iban(r *rand.Rand) string {
	customer := seeded(1000 + uint64(skewed(r, 20_000)))
	digits := []byte("DE00100500000000000000")
	for i := 2; i < 4; i++ {
		digits[i] = '0' + byte(customer.IntN(10))
	}
	for i := 12; i < len(digits); i++ {
		digits[i] = '0' + byte(customer.IntN(10))
	}
	return string(digits)
}

var currencies = []string{"EUR", "EUR", "EUR", "EUR", "USD", "USD", "GBP", "CHF"}
