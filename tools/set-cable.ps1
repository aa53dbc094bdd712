#Requires -RunAsAdministrator
<#
.SYNOPSIS
    Joins the Ethernet of the adapter Root\SoftNdk to that of other machines (docs/cable.md).
.DESCRIPTION
    Not yet run on Windows. Sets the adapter's parameters CableLocal and CablePeers, which restarts the adapter, lets the peers' datagrams through
    Windows Firewall, and says how a Linux machine becomes a peer. Run it on each machine, then set-address.ps1.
.PARAMETER Peer
    The IP addresses of the other machines, all of IPv4 or all of IPv6.
.PARAMETER Local
    This machine's IP address in the network between them; if none is given, the one from which it reaches the first peer.
.EXAMPLE
    .\set-cable.ps1 192.168.1.11
.EXAMPLE
    .\set-cable.ps1 192.168.1.11, 192.168.1.12 -Local 192.168.1.10
#>
[CmdletBinding()]
param(
    [Parameter(Mandatory, Position = 0)]
    [ipaddress[]] $Peer,
    [ipaddress] $Local
)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$rule = 'SoftNDK cable'
$port = 4789

# It is not listed while it restarts: after Set-NetAdapterAdvancedProperty, for one.
$deadline = (Get-Date).AddSeconds(30)
while (-not ($adapter = Get-NetAdapter -InterfaceDescription 'SoftNDK*' -ErrorAction SilentlyContinue | Select-Object -First 1)) {
    if ((Get-Date) -gt $deadline) {
        throw 'There is no adapter of SoftNDK: install.ps1 creates it.'
    }
    Start-Sleep -Milliseconds 500
}

if (-not $Local) {
    # Objects of two kinds: the address, and the route.
    $found = Find-NetRoute -RemoteIPAddress "$($Peer[0])" | Where-Object { $_.PSObject.Properties['IPAddress'] } | Select-Object -First 1
    if (-not $found) {
        throw "No route leads to $($Peer[0])."
    }
    $Local = $found.IPAddress
}
$held = Get-NetIPAddress -IPAddress "$Local" -ErrorAction SilentlyContinue | Select-Object -First 1
if (-not $held) {
    throw "This machine does not have $Local."
}
if ($held.InterfaceIndex -eq $adapter.ifIndex) {
    throw "$Local is an address of $($adapter.Name) itself: name one of another network card by -Local."
}

$peers = ($Peer | ForEach-Object { "$_" }) -join ','
Set-NetAdapterAdvancedProperty -Name $adapter.Name -RegistryKeyword CableLocal -RegistryValue "$Local" -NoRestart
Set-NetAdapterAdvancedProperty -Name $adapter.Name -RegistryKeyword CablePeers -RegistryValue $peers

Remove-NetFirewallRule -DisplayName $rule -ErrorAction SilentlyContinue
$null = New-NetFirewallRule -DisplayName $rule -Group SoftNDK -Direction Inbound -Protocol UDP -LocalPort $port `
    -RemoteAddress ($peers -split ',') -Action Allow

if ($Local.AddressFamily -eq 'InterNetwork') { $mtu = 1450 } else { $mtu = 1430 }
Write-Output "$($adapter.Name) is joined to $peers, from $Local."
Write-Output "A Linux machine with $($Peer[0]) is a peer by"
Write-Output "  ip link add cable mtu $mtu type vxlan id 1 local $($Peer[0]) remote $Local dstport $port"
Write-Output '  ethtool -K cable tx off'
Write-Output '  ip link set cable up'
