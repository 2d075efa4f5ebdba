// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"maps"
	"slices"
	"strings"
)

// services are the allowed subcategories of each service category, next to "Other (CATEGORY)", which each has.
var services = map[string][]string{
	"AI and Machine Learning": {
		"AI Platforms", "Bots", "Generative AI", "Machine Learning", "Natural Language Processing",
	},
	"Analytics": {
		"Analytics Platforms", "Business Intelligence", "Data Processing", "Search", "Streaming Analytics",
	},
	"Business Applications": {"Productivity and Collaboration"},
	"Compute": {
		"Containers", "End User Computing", "Quantum Compute", "Serverless Compute", "Virtual Machines",
	},
	"Databases": {
		"Caching", "Data Warehouses", "Ledger Databases", "NoSQL Databases", "Relational Databases",
		"Time Series Databases",
	},
	"Developer Tools": {
		"Developer Platforms", "Continuous Integration and Deployment", "Development Environments",
		"Source Code Management", "Quality Assurance",
	},
	"Identity":           {"Identity and Access Management"},
	"Integration":        {"API Management", "Messaging", "Workflow Orchestration"},
	"Internet of Things": {"IoT Analytics", "IoT Platforms"},
	"Management and Governance": {
		"Architecture", "Compliance", "Cost Management", "Data Governance", "Disaster Recovery", "Endpoint Management",
		"Observability", "Support",
	},
	"Media":      {"Content Creation", "Gaming", "Media Streaming", "Mixed Reality"},
	"Migration":  {"Data Migration", "Resource Migration"},
	"Mobile":     nil,
	"Multicloud": {"Multicloud Integration"},
	"Networking": {
		"Application Networking", "Content Delivery", "Network Connectivity", "Network Infrastructure", "Network Routing",
		"Network Security",
	},
	"Security": {"Secret Management", "Security Posture Management", "Threat Detection and Response"},
	"Storage":  {"Backup Storage", "Block Storage", "File Storage", "Object Storage", "Storage Platforms"},
	"Web":      {"Application Platforms"},
	"Other":    nil,
}

func categories() []string { return slices.Sorted(maps.Keys(services)) }

func subcategories() []string {
	var all []string
	for category := range services {
		all = append(append(all, services[category]...), other(category))
	}
	return all
}

func other(category string) string { return "Other (" + category + ")" }

// currencies are the codes of ISO 4217 for currencies in use in November 2026, for funds and for metals, without XTS
// (tests) and XXX (no currency).
var currencies = strings.Fields(`
	AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW
	CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL
	HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA
	MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD
	RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD
	USN UYI UYU UYW UZS VED VES VND VUV WST XAF XAG XAU XBA XBB XBC XBD XCD XCG XDR XOF XPD XPF XPT XSU XUA YER ZAR ZMW
	ZWG`)
