#Requires -RunAsAdministrator
<#
.SYNOPSIS
    Joins two adapters Root\SoftNdk of this machine by a patch cable (docs/cable.md).
.DESCRIPTION
    Not yet run on Windows. Sets CablePeers of both adapters, which restarts them, gives each an address by set-address.ps1, and adds a host route to
    each address through the other adapter: without it packets stay in TCP/IP unless the sender's socket is bound to an adapter's address.
.PARAMETER Address
    An address for each adapter, both of one network that is none of this machine's.
.PARAMETER Port
    TCP ports on which consumers listen, as for set-address.ps1.
.EXAMPLE
    .\set-patch-cable.ps1 10.77.0.1, 10.77.0.2 -Port 18515
#>
[CmdletBinding()]
param(
    [Parameter(Mandatory, Position = 0)]
    [ValidateCount(2, 2)]
    [ipaddress[]] $Address,
    [uint16[]] $Port
)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$adapters = @(Get-NetAdapter -InterfaceDescription 'SoftNDK*' -ErrorAction SilentlyContinue | Select-Object -First 2)
if ($adapters.Count -lt 2) {
    throw 'There are no two adapters of SoftNDK: install.ps1 -Adapters 2 creates them.'
}
foreach ($adapter in $adapters) {
    Set-NetAdapterAdvancedProperty -Name $adapter.Name -RegistryKeyword CablePeers -RegistryValue local
}
foreach ($end in 0, 1) {
    & "$PSScriptRoot\set-address.ps1" $Address[$end] -Name $adapters[$end].Name -Port $Port
}
foreach ($end in 0, 1) {
    $other = $Address[1 - $end]
    if ($other.AddressFamily -eq 'InterNetwork') { $prefix = "$other/32"; $hop = '0.0.0.0' } else { $prefix = "$other/128"; $hop = '::' }
    if (-not (Get-NetRoute -DestinationPrefix $prefix -InterfaceIndex $adapters[$end].ifIndex -ErrorAction SilentlyContinue)) {
        # Of the routes to the address, TCP/IP takes the one of the lowest metric: its own, through the adapter that has it, has 256.
        $null = New-NetRoute -DestinationPrefix $prefix -InterfaceIndex $adapters[$end].ifIndex -NextHop $hop -RouteMetric 0
    }
}
Write-Output "$($adapters[0].Name) has $($Address[0]), $($adapters[1].Name) has $($Address[1]); ndkctl cable says whether they are joined."
