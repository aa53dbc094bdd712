#Requires -RunAsAdministrator
<#
.SYNOPSIS
    Gives the adapter Root\SoftNdk an IP address, and waits until programs can use it.
.DESCRIPTION
    Not yet run on Windows. Nobody is on the adapter's wire, so no DHCP server is: without an address of its own it has one of
    169.254.0.0/16 after a while. The address stays with the adapter; once it is there, the script only waits.
.PARAMETER Address
    An address of a network that is none of this machine's: its first 24 bits for IPv4, 64 for IPv6.
.EXAMPLE
    .\set-address.ps1 10.77.0.1
.EXAMPLE
    .\set-address.ps1 fd00:77::1
#>
[CmdletBinding()]
param(
    [Parameter(Mandatory, Position = 0)]
    [ipaddress] $Address
)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$device = Get-PnpDevice -PresentOnly | Where-Object { $_.HardwareID -contains 'Root\SoftNdk' } | Select-Object -First 1
$adapter = Get-NetAdapter | Where-Object { $device -and $_.PnPDeviceID -eq $device.InstanceId }
if (-not $adapter) {
    throw 'There is no adapter Root\SoftNdk that runs: see install.ps1.'
}

function Get-Held {
    Get-NetIPAddress -InterfaceIndex $adapter.ifIndex -ErrorAction SilentlyContinue | Where-Object { $_.IPAddress -eq "$Address" }
}

if (-not (Get-Held)) {
    $prefix = if ($Address.AddressFamily -eq 'InterNetwork') { 24 } else { 64 }
    New-NetIPAddress -InterfaceIndex $adapter.ifIndex -IPAddress "$Address" -PrefixLength $prefix | Out-Null
}
# Until then TCP/IP looks for another machine that has it, and the driver does not take it.
$deadline = (Get-Date).AddSeconds(30)
while (-not (Get-Held | Where-Object { $_.AddressState -eq 'Preferred' })) {
    if ((Get-Date) -gt $deadline) {
        Get-Held | Format-List | Out-String | Write-Output
        throw "$Address is not usable after 30 s."
    }
    Start-Sleep -Milliseconds 200
}
Write-Output "$($adapter.Name) has $Address."
