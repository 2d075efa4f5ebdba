// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"fmt"
	"math/rand/v2"
)

// Where each kind of text begins in the numbers of streams.
const (
	streamXML = 10 + iota
	streamJSON
	streamRecords
	streamLedger
	streamSource
	streamRandom
	streamFiles = 1 << 32
)

func xml(n int) []byte { return fill(n, streamXML, message) }

// message appends one payment.
func message(r *rand.Rand, b []byte) []byte {
	b = fmt.Appendf(b, `<?xml version="1.0" encoding="UTF-8"?><Document xmlns="urn:example:payment:3"><Header><MessageId>%016X-%05d</MessageId><Created>2026-%02d-%02dT%02d:%02d:%02d.%03dZ</Created><Sender>%s</Sender></Header>`,
		r.Uint64(), r.IntN(1e5), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000), iban(r))
	for range 1 + r.IntN(4) {
		b = fmt.Appendf(b, `<Transaction><EndToEndId>%s%08d</EndToEndId><Amount Currency="%s">%d.%02d</Amount><Debtor><Name>%s</Name><Account><IBAN>%s</IBAN></Account></Debtor><Creditor><Name>%s</Name><Account><IBAN>%s</IBAN></Account></Creditor><Remittance><Unstructured>%s %06d</Unstructured></Remittance></Transaction>`,
			vocabulary[skewed(r, 200)], r.IntN(1e8), currencies[r.IntN(len(currencies))], skewed(r, 100_000), r.IntN(100),
			name(r), iban(r), name(r), iban(r), phrase(r, 4+r.IntN(10)), r.IntN(1e6))
	}
	return append(b, "</Document>\n"...)
}

func json(n int) []byte {
	clock := uint64(1_790_000_000_000)
	return fill(n, streamJSON, func(r *rand.Rand, b []byte) []byte { return logLine(r, &clock, b) })
}

var (
	methods = []string{"GET", "GET", "GET", "GET", "POST", "POST", "PUT", "DELETE"}
	agents  = []string{
		"Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5)", "client-go/1.33",
		"okhttp/4.12.0",
	}
)

// logLine appends one line, a little later than the line before.
func logLine(r *rand.Rand, clock *uint64, b []byte) []byte {
	*clock += uint64(r.IntN(40))
	level, status := "info", 200
	if r.IntN(20) == 0 {
		level, status = "error", 500+r.IntN(4)
	}
	return fmt.Appendf(b, `{"ts":%d.%03d,"level":"%s","logger":"%s.%s","msg":"%s","method":"%s","path":"/api/v1/%s/%d","status":%d,"bytes":%d,"seconds":0.%06d,"remote":"10.%d.%d.%d","agent":"%s","trace":"%016x%016x","span":"%016x"}`+"\n",
		*clock/1000, *clock%1000, level, vocabulary[skewed(r, 40)], vocabulary[skewed(r, 100)], phrase(r, 3+r.IntN(6)),
		methods[r.IntN(len(methods))],
		vocabulary[skewed(r, 60)], skewed(r, 1_000_000), status, skewed(r, 200_000), skewed(r, 1_000_000), r.IntN(4),
		r.IntN(256), r.IntN(256),
		agents[r.IntN(len(agents))], r.Uint64(), r.Uint64(), r.Uint64())
}

// ledger has lines of one booking each.
func ledger(n int) []byte {
	day, booking := 0, 4_000_000
	balances := make([]int, 500)
	return fill(n, streamLedger, func(r *rand.Rand, b []byte) []byte {
		if len(b) == 0 {
			b = append(b, "date;booking;account;counter account;name;amount;currency;balance;text\n"...)
		}
		if r.IntN(400) == 0 {
			day++
		}
		booking += 1 + r.IntN(3)
		account := skewed(r, len(balances))
		amount := skewed(r, 5_000_000) - 100_000
		balances[account] += amount
		return fmt.Appendf(b, "2026-%02d-%02d;%d;%08d;%s;%s;%d.%02d;EUR;%d.%02d;%s\n", 1+day/28%12, 1+
			day%28, booking, 70_000_000+account*37,
			iban(r), name(r), amount/100, abs(amount%100), balances[account]/100, abs(balances[account]%100), phrase(r, 2+
				r.IntN(5)))
	})
}

func abs(n int) int { return max(n, -n) }

// source resembles program text: few words, much indentation, little repetition
// of whole lines.
func source(n int) []byte {
	word := func(r *rand.Rand) string { return vocabulary[skewed(r, 300)] }
	return fill(n, streamSource, func(r *rand.Rand, b []byte) []byte {
		switch r.IntN(5) {
		case 0:
			return fmt.Appendf(
				b, "func (%c *%s) %s%s(%s []byte) (int, error) {\n", 'a'+r.IntN(26), word(r), word(r), word(r), word(r),
			)
		case 1:
			return fmt.Appendf(
				b, "\tif err := %s.%s(%s, %d); err != nil {\n\t\treturn 0, fmt.Errorf(\"%s the %s: %%w\", err)\n\t}\n", word(r),
				word(r), word(r), r.IntN(1<<16), word(r), word(r),
			)
		case 2:
			return fmt.Appendf(b, "\t// %s\n", phrase(r, 5+r.IntN(10)))
		case 3:
			return fmt.Appendf(
				b, "\tfor i := range %s {\n\t\t%s[i] += %s.%s[i^0x%x]\n\t}\n", word(r), word(r), word(r), word(r), r.IntN(1<<12),
			)
		default:
			return fmt.Appendf(b, "\t%s, %s := %s.%s(), %d\n\n", word(r), word(r), word(r), word(r), r.IntN(1000))
		}
	})
}
